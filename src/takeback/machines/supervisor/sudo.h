/* sudo for an engine that ignores set-user-ID bits: see sudo.c. */
#ifndef SUDO_H
#define SUDO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SUDO_GROUPS_MAX = 64, SUDO_BLOB_MAX = 4 * 1024 * 1024 };

/* What is asked for; followed by `length` bytes: the working folder, the arguments and the environment, each text with
 * its NUL. It travels with the three standard streams. */
struct sudo_request {
    uint32_t magic, uid, gid, group_count, argument_count, environment_count, length;
    uint32_t groups[SUDO_GROUPS_MAX];
};

enum { SUDO_MAGIC = 0x6f647573 };

/* sudo.c: the command; returns its exit status. */
int sudo_main(int argc, char **argv);

/* sudoserve.c: starts the process that does what `sudo` asks for and returns its number, or -1. Call as PID 1, before
 * signals are blocked or limits changed: what it runs inherits them. */
pid_t sudo_serve(void);
int sudo_connect(void);
/* Becomes the user and the program; prints what fails and ends. */
void sudo_become(const struct sudo_request *asked, const char *folder, char **argv, char **envp)
    __attribute__((noreturn));

#endif
