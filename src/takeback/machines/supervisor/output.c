/* From the children's pipes into their rings, as fast as the followers allow. */
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "supervisor.h"

enum { AT_ONCE = 64 * 1024, PTY_GRACE_MS = 50 };

static uint8_t nowhere[AT_ONCE];

static size_t allowed(const struct process *process) {
    uint64_t oldest = process->forgotten ? UINT64_MAX : followers_hold(process);
    if (oldest >= process->ring.total)
        return AT_ONCE;
    uint64_t waiting = process->ring.total - oldest;
    if (waiting >= RING_MAX)
        return 0;
    return RING_MAX - waiting < AT_ONCE ? (size_t)(RING_MAX - waiting) : AT_ONCE;
}

bool process_readable(const struct process *process) {
    return allowed(process) > 0;
}

static void close_end(int *fd, long *left) {
    close(*fd);
    *fd = -1;
    *left = 0;
}

void process_read(struct process *process, bool is_stderr) {
    int *fd = is_stderr ? &process->err : &process->out;
    long *left = is_stderr ? &process->err_left : &process->out_left;
    size_t room = allowed(process);
    if (*fd < 0 || room == 0)
        return;
    bool keep = !process->forgotten;
    uint8_t *to = keep ? ring_space(&process->ring, room, &room) : nowhere;
    if (!to) { /* no memory for a ring at all: the output is lost, the process lives */
        to = nowhere;
        keep = false;
    }
    ssize_t got;
    do
        got = read(*fd, to, room);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        if (keep)
            ring_filled(&process->ring, (size_t)got, is_stderr);
        *left -= got;
    } else if (got == 0 || errno != EAGAIN) {
        close_end(fd, left); /* a pty says EIO when nobody has its other side any more */
    } else if (!process->pty || awake_ms() - process->ending_since > PTY_GRACE_MS) {
        *left = 0; /* of a pty the kernel may still be handing over what was written last */
    }
}

/* What was in the pipes when the last of the session was dead is the last output; what comes later is a daemon's. */
bool process_drained(struct process *process) {
    if (!process->draining) {
        int waiting = 0;
        process->draining = true;
        process->out_left = process->err_left = 0;
        if (process->out >= 0)
            process->out_left = process->pty ? AT_ONCE : ioctl(process->out, FIONREAD, &waiting) < 0 ? 1 : waiting;
        if (process->err >= 0)
            process->err_left = ioctl(process->err, FIONREAD, &waiting) < 0 ? 1 : waiting;
    }
    while (process->out >= 0 && process->out_left > 0 && process_readable(process)) {
        long before = process->out_left;
        process_read(process, false);
        if (process->out_left == before)
            break;
    }
    while (process->err >= 0 && process->err_left > 0 && process_readable(process)) {
        long before = process->err_left;
        process_read(process, true);
        if (process->err_left == before)
            break;
    }
    return process->out_left <= 0 && process->err_left <= 0;
}
