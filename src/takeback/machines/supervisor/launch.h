/* One process that is about to be started. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "supervisor.h"

struct launch {
    char **argv; /* argv[-1] is free: a script without `#!` gets a shell there */
    char **env;
    const char *path; /* PATH of its environment */
    const char *cwd;
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    size_t group_count;
    uint64_t timeout_ms, credit;
    uint32_t follower;
    uint16_t cols, rows;
    bool with_stdin, pty, session;
    bool of_first, of_root; /* whether its supervisor is PID 1, and root */
    int fds[3]; /* its stdin, stdout, stderr */
    char terminal[32];
    /* What went wrong, written by the child in memory that it shares until exec. */
    volatile int error;
    const char *volatile stage;
    const char *volatile culprit;
    void *memory[4];
};

/* Read the body of SPAWN; returns an errno or 0. To be freed in both cases. */
int launch_read(struct launch *launch, const uint8_t *bytes, size_t length);
void launch_free(struct launch *launch);
/* Returns the pid once the program runs; else `error`, `stage` and `culprit` are set. */
pid_t launch_run(struct launch *launch);
/* The fields ARG and CWD for LIST, cut to a few KiB. */
void launch_show(const struct launch *launch, struct body *body);

#endif
