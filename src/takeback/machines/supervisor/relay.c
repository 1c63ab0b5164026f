/* Relayed connections: listening, dialling, hanging up. Does not cover: their bytes (see flow.c). */
#include "relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUEST_IDS = 1U << 31, ACCEPT_AT_ONCE = 16 };

struct connection *connections;
int relay_listener = -1;
static uint64_t listening;
static uint32_t last_id;

static struct connection *find(uint32_t id) {
    struct connection *one = connections;
    while (one && (one->id != id || one->gone))
        one = one->next;
    return one;
}

static struct connection *add(uint32_t id, int fd) {
    unsigned count = 0;
    for (struct connection *one = connections; one; one = one->next)
        count += !one->gone;
    struct connection *made = count < CONNECTIONS_MAX ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    *made = (struct connection){.next = connections, .id = id, .fd = fd};
    return connections = made;
}

static void hangup_message(uint32_t id, int error) {
    struct body body = {0};
    put_u64(&body, T_ERRNO, (uint64_t)error);
    out_message(M_GUEST_HANGUP, id, &body);
    body_free(&body);
}

static void reset(struct connection *connection) {
    /* Without lingering the other side is told of a reset, not of an orderly end. */
    struct linger at_once = {.l_onoff = 1};
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    connection->gone = true;
}

void relay_hangup(struct connection *connection, int error) {
    reset(connection);
    hangup_message(connection->id, error);
}

void relay_reset_all(void) {
    for (struct connection *one = connections; one; one = one->next)
        if (!one->gone)
            reset(one);
}

void relay_sweep(void) {
    for (struct connection **at = &connections; *at;) {
        struct connection *one = *at;
        bool over = one->ended_in && one->ended_out && !one->taken_due;
        if (!one->gone && !over) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        close(one->fd);
        free(one->data);
        free(one);
    }
}

static int local_socket(uint64_t port, struct sockaddr_in *address) {
    if (port == 0 || port > 65535) {
        errno = EINVAL;
        return -1;
    }
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void listen_on(uint64_t port) {
    struct sockaddr_in address;
    int on = 1;
    if (relay_listener >= 0 && port == listening)
        return; /* a new host says it again; who waits to be accepted is not reset for it */
    if (relay_listener >= 0)
        close(relay_listener);
    relay_listener = -1;
    if (port == 0)
        return;
    int fd = local_socket(port, &address);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 128) < 0) {
        out_error(0, errno, "LISTEN");
        if (fd >= 0)
            close(fd);
        return;
    }
    relay_listener = fd;
    listening = port;
}

void relay_accept(void) {
    for (int count = 0; count < (int)ACCEPT_AT_ONCE && relay_listener >= 0; count++) {
        int fd = accept4(relay_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        do
            last_id = (last_id + 1) | GUEST_IDS;
        while (find(last_id));
        if (!add(last_id, fd)) {
            close(fd);
            return;
        }
        out_message(M_ACCEPTED_CONNECTION, last_id, NULL);
    }
}

static void dial(uint32_t id, uint64_t port) {
    struct sockaddr_in address;
    if (id == 0 || id & GUEST_IDS || find(id)) {
        out_error(id, EEXIST, "DIAL needs a new id below the guest's");
        return;
    }
    int fd = local_socket(port, &address);
    if (fd < 0) {
        hangup_message(id, errno);
        return;
    }
    int done = connect(fd, (struct sockaddr *)&address, sizeof address), error = done < 0 ? errno : 0;
    if (done < 0 && error != EINPROGRESS && error != ECONNREFUSED) {
        hangup_message(id, error);
        close(fd);
        return;
    }
    struct connection *made = add(id, fd);
    if (!made) {
        hangup_message(id, ENOBUFS);
        close(fd);
        return;
    }
    made->dialling = done < 0;
    made->port = (uint16_t)port;
    if (error == ECONNREFUSED && !relay_dial_other(made))
        relay_hangup(made, error);
    else if (done == 0)
        out_message(M_DIALLED, id, NULL);
}

/* What is told to listen on "localhost" may have taken only ::1. */
bool relay_dial_other(struct connection *connection) {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(connection->port),
                                   .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = connection->port ? socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    connection->port = 0;
    if (fd < 0)
        return false;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) {
        close(fd);
        return false;
    }
    close(connection->fd);
    connection->fd = fd;
    return true;
}

void relay_request(uint8_t type, uint8_t flags, uint32_t id, const uint8_t *body, size_t length) {
    struct connection *connection = find(id);
    uint64_t number;
    if (type == M_BYTES) {
        if (connection) /* else it was reset while this was on the way */
            relay_bytes(connection, body, length, flags & F_EOF);
    } else if (!find_u64(body, length, type == M_TAKEN ? T_TOTAL : T_PORT, 0, &number)) {
        out_error(id, EPROTO, "a message about connections cannot be read");
    } else if (type == M_LISTEN) {
        listen_on(number);
    } else if (type == M_DIAL) {
        dial(id, number);
    } else if (type == M_TAKEN && connection && number > connection->host_took && number <= connection->sent) {
        connection->host_took = number;
    } else if (type == M_HANGUP && connection) {
        reset(connection);
    }
}
