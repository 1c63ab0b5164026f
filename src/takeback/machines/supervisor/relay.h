/* Relayed connections: byte streams between the host and ports of 127.0.0.1 inside. */
#ifndef RELAY_H
#define RELAY_H

#include "supervisor.h"

enum { CONNECTIONS_MAX = 512, RELAY_WINDOW = 256 * 1024 };

struct connection {
    struct connection *next;
    uint32_t id;
    int fd;
    bool dialling, gone;
    /* Towards the host: read when poll said so, while it took all but a window of what was sent. */
    bool readable, ended_out;
    uint64_t sent, host_took;
    /* From the host: what the socket has not taken yet. */
    uint8_t *data;
    size_t start, length;
    uint64_t taken;
    bool taken_due, ending_in, ended_in;
};

extern struct connection *connections;
extern int relay_listener; /* -1: nobody may connect */

/* relay.c: the messages. */
void relay_request(uint8_t type, uint8_t flags, uint32_t id, const uint8_t *body, size_t length);
void relay_accept(void);
void relay_reset_all(void);
void relay_sweep(void);
void relay_hangup(struct connection *connection, int error);

/* flow.c: the bytes. */
short relay_wants(const struct connection *connection); /* poll's events */
void relay_ready(struct connection *connection, short events);
void relay_bytes(struct connection *connection, const uint8_t *bytes, size_t length, bool eof);
size_t relay_frame(uint8_t *frame);

#endif
