/* The bytes of relayed connections: nothing is read that the host has no window for, nothing kept beyond one. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay.h"

static uint32_t served; /* id of the connection whose turn it was last */

static size_t window(const struct connection *one) {
    return RELAY_WINDOW - (size_t)(one->sent - one->host_took);
}

short relay_wants(const struct connection *one) {
    short events = 0;
    if (one->gone)
        return 0;
    if (one->dialling)
        return POLLOUT;
    if (!one->readable && !one->ended_out && window(one) > 0)
        events |= POLLIN;
    if (one->length > 0)
        events |= POLLOUT;
    return events;
}

static void flush(struct connection *one) {
    while (one->length > 0) {
        ssize_t wrote = send(one->fd, one->data + one->start, one->length, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EAGAIN)
            return;
        if (wrote < 0) {
            relay_hangup(one, errno);
            return;
        }
        one->start += (size_t)wrote;
        one->length -= (size_t)wrote;
        one->taken += (uint64_t)wrote;
        one->taken_due = true;
    }
    one->start = 0;
    if (one->ending_in && !one->ended_in) {
        shutdown(one->fd, SHUT_WR);
        one->ended_in = true;
    }
}

static void dialled(struct connection *one) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error) {
        relay_hangup(one, error);
        return;
    }
    one->dialling = false;
    out_message(M_DIALLED, one->id, NULL);
    flush(one);
}

void relay_ready(struct connection *one, short events) {
    if (one->gone)
        return;
    if (one->dialling) {
        dialled(one);
        return;
    }
    if (events & (POLLIN | POLLHUP | POLLERR))
        one->readable = true;
    if (events & (POLLOUT | POLLERR))
        flush(one);
}

void relay_bytes(struct connection *one, const uint8_t *bytes, size_t length, bool eof) {
    if (one->ending_in || one->length + length > RELAY_WINDOW) {
        relay_hangup(one, EPROTO);
        return;
    }
    if (length > 0 && !one->data) {
        one->data = malloc(RELAY_WINDOW);
        if (!one->data) {
            relay_hangup(one, ENOMEM);
            return;
        }
    }
    if (one->start + one->length + length > RELAY_WINDOW) {
        memmove(one->data, one->data + one->start, one->length);
        one->start = 0;
    }
    if (length > 0)
        memcpy(one->data + one->start + one->length, bytes, length);
    one->length += length;
    one->ending_in = eof;
    if (!one->dialling)
        flush(one);
}

static size_t taken_frame(uint8_t *frame, struct connection *one) {
    one->taken_due = false;
    store_header(frame, M_GUEST_TAKEN, 0, 13, one->id);
    frame[HEADER] = T_TOTAL;
    store_u32(frame + HEADER + 1, 8);
    store_u64(frame + HEADER + 5, one->taken);
    return HEADER + 13;
}

static size_t bytes_frame(uint8_t *frame, struct connection *one) {
    size_t room = window(one) < PAYLOAD_MAX ? window(one) : PAYLOAD_MAX;
    ssize_t got;
    do
        got = recv(one->fd, frame + HEADER, room, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        one->readable = false;
        if (errno != EAGAIN)
            relay_hangup(one, errno); /* its message waits in the queue */
        return 0;
    }
    if (got == 0) {
        one->readable = false;
        one->ended_out = true;
    }
    one->sent += (uint64_t)got;
    store_header(frame, M_GUEST_BYTES, got == 0 ? F_EOF : 0, (uint16_t)got, one->id);
    return HEADER + (size_t)got;
}

static size_t frame_of(uint8_t *frame, struct connection *one) {
    if (one->gone)
        return 0;
    if (one->taken_due)
        return taken_frame(frame, one);
    if (one->readable && !one->ended_out && window(one) > 0)
        return bytes_frame(frame, one);
    return 0;
}

size_t relay_frame(uint8_t *frame) {
    struct connection *first = connections;
    while (first && first->id != served)
        first = first->next;
    first = first && first->next ? first->next : connections;
    struct connection *one = first;
    if (!one)
        return 0;
    do {
        size_t length = frame_of(frame, one);
        if (length) {
            served = one->id;
            return length;
        }
        one = one->next ? one->next : connections;
    } while (one != first);
    return 0;
}
