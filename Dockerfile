# Weir as a container: one static binary, no shell, not root.
#
#   docker build -t weir .
#   docker run -p 8080:8080 -v ./token:/run/secrets/weir-token:ro weir
#
# In a container loopback is the container's own, so the http door listens on all
# addresses; off loopback a door says who may use it, and here that is whoever has
# the token. On a network where everybody may, say so:
#
#   docker run … weir serve --http 0.0.0.0:8080 --auth none -c /etc/weir/weir.yaml
#
# The admin door stays on the container's loopback; `docker exec … /weir explain`
# reaches it. /healthz and /readyz need no token.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /weir ./cmd/weir

# static holds certificates and time zones, which calendar limits need.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /weir /weir
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/weir"]
CMD ["serve", "--http", "0.0.0.0:8080", "--auth", "token", "--token-file", "/run/secrets/weir-token", "--log-format", "json"]
