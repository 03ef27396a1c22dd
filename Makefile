# Every target is one command that can be read here. `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help test lint fuzz soak flood bench race mainjob verify faults linear soak-faults swaps crowd gateways caddy page demo cover cold-build docs docs-failure algorithms regions regions-docs kills recipes clean replay-bench replay-memory

FUZZTIME ?= 10m# CPU minutes for each fuzz target: one worker runs at a time
HISTORIES ?= 1000000
REPLAY_MB ?= 256
SOAK ?= 15m
KEYS ?= 10000000

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## everything that CI runs: ./test
	./test

lint: ## format, vet, golangci-lint, and the rules of the house
	scripts/lint
	go test -count 1 -run TestRules .

fuzz: ## every fuzz target, FUZZTIME (10m) of one worker each
	scripts/fuzz $(FUZZTIME)

soak: ## HISTORIES (1000000) random histories against the promises of the contract
	WEIR_HISTORIES=$(HISTORIES) go test -count 1 -timeout 0 -run TestPromises -v ./verify

flood: ## the memory store's bound in bytes under KEYS (10000000) distinct keys, logs, blocks, refunds
	WEIR_KEYS=$(KEYS) go test -count 1 -timeout 0 -run TestMemoryIsBounded -v .

bench: ## rivals side by side, in memory and on Redis, into docs/benchmarks.md; fails if a promise is not kept
	go run -C bench ./cmd/report

race: ## 16 processes of 64 goroutines on one key of a real Redis: exactly 1,000 admitted
	go test -count 1 -run TestRace -v ./storetest

verify: ## the vectors through the binary, on memory and on a redis-server of its own
	go test -count 1 -run TestVerify -v ./internal/mainjob

mainjob: ## weir proxy before a real nginx, driven by access logs, counted by awk
	go test -count 1 -run TestMainJob -v ./internal/mainjob

swaps: ## the policy file swapped 10,000 times under load: no decision by two policies, no balance lost
	WEIR_SWAPS=10000 go test -count 1 -timeout 0 -run TestSwaps -v ./internal/daemon

crowd: ## 10,000 idle and 1,000 slow connections on the API, on what gateways ask and on the proxy, fewer where descriptors do not suffice: other clients are answered
	WEIR_CROWD=10000 go test -count 1 -run TestCrowd -v ./internal/mainjob

gateways: ## the recipes in examples/ as they stand, before a real nginx, HAProxy and Caddy
	go test -count 1 -run TestGateways -v ./internal/mainjob

doors: ## CPU a call of the RLS, RESP and HTTP doors beside a constant answer, median of 9 rounds; fails over 1.2 times; crowds
	WEIR_DOOR_ROUNDS=9 go test -p 1 -count 1 -timeout 0 -run 'TestCost|TestThroughput|TestCrowd' -v ./internal/door/rls ./internal/door/resp ./internal/door/check

caddy: ## what a real Caddy serves for each spelling of a path, against the record; builds Caddy: 5 CPU minutes
	go test -C tools/caddy -count 1 ./...

faults: ## every fault as long as it is said to last, on real servers, under 2,000 checks a second
	WEIR_FAULTS=long go test -count 1 -timeout 60m -v -run 'TestSingle|TestSentinel|TestCluster|TestShare' ./internal/faults

linear: ## 500 histories of 8 clients through faults, each explained by the algorithms one step after the other
	WEIR_HISTORIES=500 go test -count 1 -timeout 60m -v -run TestLinear ./internal/faults

page: ## the admin page in a real browser, with a minute of 1,000 decisions a second
	WEIR_LONG=1 go test -count 1 -run TestPage -v ./internal/pagetest

soak-faults: ## SOAK (15m) of mixed load with random faults: memory, goroutines and descriptors stay flat
	WEIR_SOAK=$(SOAK) go test -count 1 -timeout 0 -v -run TestSoak ./internal/faults

replay-bench: ## a log of REPLAY_MB (256) under ten rules, by turns with cut | wc -l: at least a quarter of its lines a second
	WEIR_REPLAY_BENCH=$(REPLAY_MB) go test -count 1 -timeout 0 -run TestSpeed -v ./sim/replay

replay-memory: ## a log of 1 GB: memory does not grow with its length
	WEIR_REPLAY_MEMORY=1024 go test -count 1 -timeout 0 -run TestMemory -v ./sim/replay

demo: ## API, proxy, policy and three callers in one terminal
	go run ./cmd/weir demo

cover: ## coverage of the whole module, as a table and as bin/cover.html
	mkdir -p bin
	go test -short -coverpkg ./... -coverprofile bin/cover.out ./...
	go tool cover -func bin/cover.out | tail -n 1
	go tool cover -html bin/cover.out -o bin/cover.html

cold-build: ## CPU seconds of a cold build, against an empty program with rueidis; fails over 120 more
	scripts/cold-build

docs-failure: ## docs/failure.md's table of faults, from the code's own
	WEIR_WRITE_DOCS=1 go test -count 1 -run TestFaultsAreDocumented ./redisstore
	WEIR_WRITE_DOCS=1 go test -count 1 -run TestFaultsAreShown ./internal/faults

docs: ## links, dependencies, snippets and the map against the tree
	go test -count 1 -run 'TestDocs|TestRules|Example' .

regions: ## three regions on three redis-servers, 120 ms apart, with loss, parted for 30 s, against the bound
	WEIR_REGIONS_LONG=1 go test -count 1 -timeout 20m -v ./regions

regions-docs: ## docs/regions.md and its pictures anew, from the engine as it is
	go test -count 1 -run TestDocumentIsCurrent ./sim/regional -update

algorithms: ## docs/algorithms.md and its pictures anew, from the engine as it is
	go test -count 1 -run TestDocumentIsCurrent ./sim -update

kills: ## weir-events killed 50 times, also between commit and acknowledgement: every event in SQLite, PostgreSQL and JSON once
	WEIR_KILLS=50 go test -C cmd/weir-events -count 1 -timeout 0 -run TestKilled -v .

recipes: ## deploy/grafana, deploy/prometheus and the tables of docs/observability.md, from the metric definitions
	go test -count 1 -run TestFilesAreAsMade ./observe/metrics/recipes -update

clean: ## what the targets above made
	rm -rf bin
