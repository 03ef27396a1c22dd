/* A wall clock that a test may step: loaded into a server in front of libc, it
 * adds to the time of day the microseconds that the file $WEIR_TEST_CLOCK holds.
 * The file is mapped, so that a step is in force at once and everywhere. Clocks
 * that only measure are left alone, as when a real machine's clock is set. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("WEIR_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) abort();
	offset = at;
	close(fd);
}

int gettimeofday(struct timeval *tv, void *zone) {
	struct timespec ts;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
	int64_t us = (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + (offset ? *offset : 0);
	tv->tv_sec = us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}
