/* From the host to the children's stdin, with what was taken told back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor.h"

static const uint8_t end_of_text = 4; /* what a terminal's user types for the end of input */
static unsigned due;

static void accepted(struct process *process, size_t count) {
    process->in_total += count;
    if (!process->accept_due) {
        process->accept_due = true;
        due++;
    }
}

void stdin_close(struct process *process) {
    if (process->in >= 0)
        close(process->in);
    process->in = -1;
    free(process->in_data);
    process->in_data = NULL;
    process->in_start = process->in_length = 0;
    if (process->accept_due && process->forgotten) {
        process->accept_due = false;
        due--;
    }
}

void stdin_flush(struct process *process) {
    while (process->in >= 0 && process->in_length > 0) {
        ssize_t wrote = write(process->in, process->in_data + process->in_start, process->in_length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EAGAIN)
            return;
        if (wrote < 0) {
            /* What nobody will read counts as taken, so that no writer waits for it. */
            accepted(process, process->in_length);
            stdin_close(process);
            out_error(process->id, EPIPE, "stdin is closed");
            return;
        }
        process->in_start += (size_t)wrote;
        process->in_length -= (size_t)wrote;
        accepted(process, (size_t)wrote);
    }
    if (process->in_length == 0) {
        free(process->in_data); /* 256 KiB for each of a thousand idle shells would be too much */
        process->in_data = NULL;
        process->in_start = 0;
        if (process->in_eof && !process->pty)
            stdin_close(process);
    }
}

static bool keep(struct process *process, const uint8_t *bytes, size_t length) {
    if (!process->in_data) {
        process->in_data = malloc(STDIN_MAX + 1);
        process->in_start = 0;
    }
    if (!process->in_data)
        return false;
    if (process->in_start + process->in_length + length > STDIN_MAX + 1) {
        memmove(process->in_data, process->in_data + process->in_start, process->in_length);
        process->in_start = 0;
    }
    memcpy(process->in_data + process->in_start + process->in_length, bytes, length);
    process->in_length += length;
    return true;
}

void stdin_data(struct process *process, uint32_t id, const uint8_t *bytes, size_t length, bool eof) {
    if (!process || process->state == ENDED) {
        out_error(id, process ? EPIPE : ESRCH, process ? "the process has ended" : "no such process");
        return;
    }
    if (process->in < 0 || process->in_eof) {
        out_error(id, EPIPE, "stdin is closed");
        return;
    }
    if (process->in_length + length > STDIN_MAX || (length > 0 && !keep(process, bytes, length))) {
        out_error(id, ENOBUFS, "more than 256 KiB of stdin were sent ahead: these bytes are dropped");
        return;
    }
    if (eof) {
        process->in_eof = true;
        if (process->pty && keep(process, &end_of_text, 1))
            process->in_total--; /* not one of the host's bytes */
    }
    stdin_flush(process);
}

void stdin_tell_all(void) {
    for (struct process *one = processes; one; one = one->next)
        if (one->in >= 0 && !one->forgotten)
            accepted(one, 0);
}

size_t stdin_accepted(uint8_t *frame) {
    if (due == 0)
        return 0;
    for (struct process *one = processes; one; one = one->next) {
        if (!one->accept_due)
            continue;
        one->accept_due = false;
        due--;
        store_header(frame, M_ACCEPTED, 0, 13, one->id);
        frame[HEADER] = T_TOTAL;
        store_u32(frame + HEADER + 1, 8);
        store_u64(frame + HEADER + 5, one->in_total);
        return HEADER + 13;
    }
    due = 0;
    return 0;
}
