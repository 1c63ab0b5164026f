/* Byte streams between programs inside and the host: one listening port, connections made to ports inside, and a window
 * of 256 KiB each way for each of them. Nothing of what they carry is looked at. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor.h"

enum { WINDOW = 256 * 1024, TELL = WINDOW / 4, ACCEPT_AT_ONCE = 16, BACKLOG = 256 };

static const uint32_t by_guest = UINT32_C(1) << 31;

struct relayed {
    struct relayed *next;
    uint32_t id;
    int fd; /* -1: over, freed by the next sweep */
    uint16_t port; /* that is being dialled; 0: connected */
    bool six;      /* the second attempt, at ::1 */
    bool readable, out_eof;
    uint64_t out_sent, out_taken;
    uint8_t *in_data; /* of the host, not yet written */
    size_t in_start, in_length;
    uint64_t in_total, in_told;
    bool in_eof, in_shut;
};

static struct relayed *all, *turn;
static struct relayed *polled[1 + RELAYED_MAX]; /* NULL: the listener */
static unsigned open_count;
static int listener = -1;
static uint16_t listening;
static uint32_t last_id;

static struct relayed *find(uint32_t id) {
    struct relayed *one = all;
    while (one && (one->id != id || one->fd < 0))
        one = one->next;
    return one;
}

static void over(struct relayed *one, bool reset) {
    struct linger at_once = {1, 0};
    if (one->fd < 0)
        return;
    if (reset)
        setsockopt(one->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(one->fd);
    one->fd = -1;
    free(one->in_data);
    one->in_data = NULL;
    open_count--;
}

static void tell_number(uint8_t type, uint32_t id, uint8_t tag, uint64_t value) {
    struct body body = {0};
    put_u64(&body, tag, value);
    out_message(type, id, &body);
    body_free(&body);
}

static void hang_up(struct relayed *one, int error) {
    tell_number(M_GUEST_HANGUP, one->id, T_ERRNO, (uint64_t)error);
    over(one, true);
}

static struct relayed *add(uint32_t id, int fd) {
    struct relayed *made = open_count < RELAYED_MAX ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    *made = (struct relayed){.next = all, .id = id, .fd = fd};
    open_count++;
    return all = made;
}

static void settle(struct relayed *one) {
    if (one->in_shut && one->out_eof)
        over(one, false);
}

static int loopback(bool six, uint16_t port, bool listen_there) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 other = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *address = six ? (const void *)&other : (const void *)&four;
    socklen_t size = six ? sizeof other : sizeof four;
    int on = 1, fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    bool done;
    if (listen_there) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        done = bind(fd, address, size) == 0 && listen(fd, BACKLOG) == 0;
    } else {
        done = connect(fd, address, size) == 0 || errno == EINPROGRESS;
    }
    if (!done) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void begin_listen(uint16_t port) {
    if (port == listening)
        return;
    if (listener >= 0)
        close(listener);
    listener = -1;
    listening = 0;
    if (port == 0)
        return;
    listener = loopback(false, port, true);
    if (listener < 0)
        out_error(0, errno, "LISTEN: the port cannot be had");
    else
        listening = port;
}

static void dial(uint32_t id, uint16_t port) {
    if (find(id)) {
        out_error(id, EEXIST, "DIAL: this connection is open");
        return;
    }
    int fd = loopback(false, port, false), error = errno;
    struct relayed *made = fd < 0 ? NULL : add(id, fd);
    if (made) {
        made->port = port;
        return;
    }
    if (fd >= 0)
        close(fd);
    tell_number(M_GUEST_HANGUP, id, T_ERRNO, (uint64_t)(fd < 0 ? error : ENOBUFS));
}

static void dialled(struct relayed *one) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) {
        one->port = 0;
        out_message(M_DIALLED, one->id, NULL);
        return;
    }
    if (error == ECONNREFUSED && !one->six) {
        /* What is told to listen on "localhost" may have taken only ::1. */
        int fd = loopback(true, one->port, false);
        if (fd >= 0) {
            close(one->fd);
            one->fd = fd;
            one->six = true;
            return;
        }
    }
    hang_up(one, error);
}

static void accept_some(void) {
    struct linger at_once = {1, 0};
    for (int count = 0; count < ACCEPT_AT_ONCE; count++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        do
            last_id = (last_id + 1) | by_guest;
        while (find(last_id));
        struct relayed *made = add(last_id, fd);
        if (!made) {
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            close(fd);
            continue;
        }
        out_message(M_ACCEPTED_CONNECTION, made->id, NULL);
    }
}

static void flush(struct relayed *one) {
    while (one->in_length > 0) {
        ssize_t wrote = send(one->fd, one->in_data + one->in_start, one->in_length, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EAGAIN)
            return;
        if (wrote < 0) {
            hang_up(one, errno);
            return;
        }
        one->in_start += (size_t)wrote;
        one->in_length -= (size_t)wrote;
        one->in_total += (size_t)wrote;
    }
    free(one->in_data); /* an idle one holds no memory */
    one->in_data = NULL;
    one->in_start = 0;
    if (one->in_eof && !one->in_shut) {
        shutdown(one->fd, SHUT_WR);
        one->in_shut = true;
        settle(one);
    }
}

static void take(struct relayed *one, const uint8_t *bytes, size_t length, bool eof) {
    if (one->port || one->in_eof || length > WINDOW - one->in_length) {
        hang_up(one, EPROTO);
        return;
    }
    if (length > 0) {
        if (!one->in_data)
            one->in_data = malloc(WINDOW);
        if (!one->in_data) {
            hang_up(one, ENOMEM);
            return;
        }
        if (one->in_start + one->in_length + length > WINDOW) {
            memmove(one->in_data, one->in_data + one->in_start, one->in_length);
            one->in_start = 0;
        }
        memcpy(one->in_data + one->in_start + one->in_length, bytes, length);
        one->in_length += length;
    }
    one->in_eof = eof;
    flush(one);
}

void relay_request(uint8_t type, uint8_t flags, uint32_t id, const uint8_t *body, size_t length) {
    uint64_t value = 0;
    struct relayed *one = type == M_LISTEN || type == M_DIAL ? NULL : find(id);
    if (type == M_BYTES) {
        if (one)
            take(one, body, length, flags & F_EOF);
        return; /* else it ended while this was on the way */
    }
    if (type == M_HANGUP) {
        if (one)
            over(one, true);
        return;
    }
    if (!find_u64(body, length, type == M_TAKEN ? T_TOTAL : T_PORT, 0, &value))
        out_error(id, EPROTO, "the frame cannot be read");
    else if (type == M_TAKEN) {
        if (one && value > one->out_taken && value <= one->out_sent)
            one->out_taken = value;
    } else if (value > UINT16_MAX || (type == M_DIAL && value == 0))
        out_error(id, EINVAL, "no such port");
    else if (type == M_LISTEN)
        begin_listen((uint16_t)value);
    else
        dial(id, (uint16_t)value);
}

static bool may_read(const struct relayed *one) {
    return !one->out_eof && one->out_sent - one->out_taken < WINDOW;
}

nfds_t relay_poll(struct pollfd *fds) {
    nfds_t count = 0;
    if (out_is_quiet() || out_crowded())
        return 0;
    if (listener >= 0) {
        fds[count] = (struct pollfd){.fd = listener, .events = POLLIN};
        polled[count++] = NULL;
    }
    for (struct relayed *one = all; one; one = one->next) {
        short events = 0;
        if (one->fd < 0)
            continue;
        if (one->port || one->in_length > 0)
            events |= POLLOUT;
        if (!one->port && !one->readable && may_read(one))
            events |= POLLIN;
        /* Unasked, poll tells of a reset, but also of two orderly ends, again and again. */
        if (!events && (one->in_shut || one->readable))
            continue;
        fds[count] = (struct pollfd){.fd = one->fd, .events = events};
        polled[count++] = one;
    }
    return count;
}

void relay_ready(const struct pollfd *fds, nfds_t count) {
    for (nfds_t at = 0; at < count; at++) {
        struct relayed *one = polled[at];
        short got = fds[at].revents;
        if (!got)
            continue;
        if (!one) {
            accept_some();
        } else if (one->port) {
            dialled(one);
        } else {
            if (got & POLLOUT)
                flush(one);
            if (one->fd >= 0 && fds[at].events & POLLIN && got & (POLLIN | POLLERR | POLLHUP))
                one->readable = true; /* reading tells what is the matter */
            else if (one->fd >= 0 && got & (POLLERR | POLLHUP))
                hang_up(one, ECONNRESET);
        }
    }
}

static size_t number_frame(uint8_t *frame, uint8_t type, uint32_t id, uint8_t tag, uint64_t value) {
    store_header(frame, type, 0, 13, id);
    frame[HEADER] = tag;
    store_u32(frame + HEADER + 1, 8);
    store_u64(frame + HEADER + 5, value);
    return HEADER + 13;
}

static size_t bytes_frame(uint8_t *frame, struct relayed *one) {
    uint64_t may = WINDOW - (one->out_sent - one->out_taken);
    size_t limit = may < PAYLOAD_MAX ? (size_t)may : PAYLOAD_MAX;
    ssize_t got;
    do
        got = recv(one->fd, frame + HEADER, limit, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) {
        one->readable = false;
        return 0;
    }
    if (got < 0) {
        int error = errno;
        over(one, true);
        return number_frame(frame, M_GUEST_HANGUP, one->id, T_ERRNO, (uint64_t)error);
    }
    if ((size_t)got < limit)
        one->readable = false; /* poll says whether there is more */
    one->out_sent += (uint64_t)got;
    store_header(frame, M_GUEST_BYTES, got == 0 ? F_EOF : 0, (uint16_t)got, one->id);
    if (got == 0) {
        one->out_eof = true;
        settle(one);
    }
    return HEADER + (size_t)got;
}

static size_t frame_of(uint8_t *frame, struct relayed *one) {
    if (one->fd < 0)
        return 0;
    if (one->in_total - one->in_told >= TELL) {
        one->in_told = one->in_total;
        return number_frame(frame, M_GUEST_TAKEN, one->id, T_TOTAL, one->in_total);
    }
    return one->readable && may_read(one) ? bytes_frame(frame, one) : 0;
}

size_t relay_frame(uint8_t *frame) {
    struct relayed *first = turn && turn->next ? turn->next : all;
    struct relayed *one = first;
    if (!one)
        return 0;
    do {
        size_t length = frame_of(frame, one);
        if (length) {
            turn = one;
            return length;
        }
        one = one->next ? one->next : all;
    } while (one != first);
    return 0;
}

void relay_reset_all(void) {
    for (struct relayed *one = all; one; one = one->next)
        over(one, true);
}

void relay_sweep(void) {
    for (struct relayed **at = &all; *at;) {
        struct relayed *one = *at;
        if (one->fd >= 0) {
            at = &one->next;
            continue;
        }
        if (turn == one)
            turn = NULL;
        *at = one->next;
        free(one);
    }
}
