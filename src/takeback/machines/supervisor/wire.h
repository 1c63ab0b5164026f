/* The frames, messages and fields of docs/formats/channel.md: numbers, and reading and building bodies. */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROTOCOL_VERSION = 1 };
enum { FRAME_MAX = 4096, HEADER = 8, PAYLOAD_MAX = FRAME_MAX - HEADER, MESSAGE_MAX = 1 << 20, NONCE = 16 };

enum { F_MORE = 1, F_EOF = 2, F_STDERR = 4, F_FOLLOW = 8 };

enum {
    M_ATTACH = 1, M_SPAWN, M_STDIN, M_SIGNAL, M_RESIZE, M_FOLLOW, M_CREDIT, M_UNFOLLOW, M_LIST, M_FORGET, M_QUIESCE,
    M_GO, M_PING, M_IDENTITY, M_SHUTDOWN,
    M_LISTEN = 32, M_DIAL, M_BYTES, M_TAKEN, M_HANGUP,
    M_ATTACHED = 65, M_STARTED, M_FAILED, M_OUTPUT, M_GAP, M_ENDED, M_ACCEPTED, M_PROCESS, M_QUIET, M_PONG,
    M_IDENTIFIED, M_ERROR,
    M_ACCEPTED_CONNECTION = 96, M_GUEST_BYTES, M_GUEST_TAKEN, M_GUEST_HANGUP, M_DIALLED
};

enum {
    T_ARG = 1, T_CWD, T_UID, T_GID, T_GROUP, T_ENV, T_TIMEOUT_MS, T_STDIN, T_PTY, T_SESSION, T_FOLLOWER, T_CREDIT,
    T_SIGNO, T_EVERYTHING, T_COLS, T_ROWS, T_PROCESS, T_CURSOR, T_TOTAL, T_GENERATION, T_MACHINE_ID, T_HOSTNAME,
    T_SEED, T_GRACE_MS, T_VERSION, T_UPTIME_MS, T_PID, T_ERRNO, T_STAGE, T_PATH, T_RESUME_AT, T_STATUS, T_TIMED_OUT,
    T_DURATION_MS, T_STATE, T_STARTED_MS, T_ENDED_MS, T_FIRST, T_STDIN_OPEN, T_STDIN_TOTAL, T_WALL_NS,
    T_MONOTONIC_NS, T_TEXT, T_PORT
};

/* What is left of a body that is being read. */
struct fields {
    const uint8_t *at, *end;
};

struct field {
    uint8_t tag;
    uint32_t length;
    const uint8_t *bytes;
};

/* 1: a field was read; 0: the body is over; -1: it is malformed. */
int next_field(struct fields *body, struct field *field);
/* Read an integer field; false when it does not have 8 bytes. */
bool field_u64(const struct field *field, uint64_t *value);
/* Find the first integer with this tag; `otherwise` when there is none. False when the body is malformed. */
bool find_u64(const uint8_t *bytes, size_t length, uint8_t tag, uint64_t otherwise, uint64_t *value);

/* A body that is being built; after a failed allocation it stays `failed` and takes nothing more. */
struct body {
    uint8_t *data;
    size_t length, room;
    bool failed;
};

void put_bytes(struct body *body, const void *bytes, size_t length);
void put_field(struct body *body, uint8_t tag, const void *bytes, size_t length);
void put_text(struct body *body, uint8_t tag, const char *text);
void put_u64(struct body *body, uint8_t tag, uint64_t value);
void body_free(struct body *body);

void store_u16(uint8_t *to, uint16_t value);
void store_u32(uint8_t *to, uint32_t value);
void store_u64(uint8_t *to, uint64_t value);
uint16_t load_u16(const uint8_t *from);
uint32_t load_u32(const uint8_t *from);
uint64_t load_u64(const uint8_t *from);
void store_header(uint8_t *to, uint8_t type, uint8_t flags, uint16_t length, uint32_t id);

#endif
