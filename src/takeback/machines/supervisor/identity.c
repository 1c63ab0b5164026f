/* What must differ between a machine and its copies: machine id, host name, randomness; and the hook that tells of it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch.h"

enum { HOOK_MS = 2000 };

uint64_t generation;
static bool waiting;
static pid_t hook;
static int64_t hook_until;

/* Empty as PID 1. A supervisor that is a plain process changes only what lies below TAKEBACK_ROOT, if that is set. */
static const char *root(void) {
    return getpid() == 1 ? "" : getenv("TAKEBACK_ROOT");
}

static bool replace_file(const char *path, const char *text, mode_t mode) {
    char temporary[PATH_MAX];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return false;
    size_t length = strlen(text);
    bool done = write(fd, text, length) == (ssize_t)length && fchmod(fd, mode) == 0;
    close(fd);
    done = done && rename(temporary, path) == 0;
    if (!done)
        unlink(temporary);
    return done;
}

static void set_machine_id(const char *top, const struct field *field) {
    char path[PATH_MAX], text[80];
    struct stat status;
    if (field->length > 64)
        return;
    snprintf(text, sizeof text, "%.*s\n", (int)field->length, (const char *)field->bytes);
    snprintf(path, sizeof path, "%s/etc/machine-id", top);
    replace_file(path, text, 0444);
    snprintf(path, sizeof path, "%s/var/lib/dbus/machine-id", top);
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode)) /* elsewhere it is a link to the other */
        replace_file(path, text, 0444);
}

static void mix_in(const struct field *field) {
    int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, field->bytes, field->length); /* where it cannot be mixed in, the engine has its own source */
    close(fd);
}

static void write_generation(const char *top) {
    char path[PATH_MAX], text[24];
    snprintf(path, sizeof path, "%s/run", top);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/run/takeback", top);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/run/takeback/generation", top);
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)generation);
    replace_file(path, text, 0644);
}

static void start_hook(const char *top) {
    char path[PATH_MAX], number[48];
    char *argv[] = {NULL, path, NULL};
    char *env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", number, NULL};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct launch launch = {.argv = argv + 1, .env = env, .path = "", .cwd = "/", .uid = getuid(), .gid = getgid(),
                            .fds = {nothing, nothing, nothing}};
    snprintf(path, sizeof path, "%s/etc/takeback/on-copy", top);
    snprintf(number, sizeof number, "TAKEBACK_GENERATION=%llu", (unsigned long long)generation);
    if (nothing < 0)
        return;
    if (access(path, X_OK) == 0) {
        hook = launch_run(&launch);
        if (hook < 0 || launch.error)
            hook = 0;
        hook_until = awake_ms() + HOOK_MS;
    }
    close(nothing);
}

static void answer(void) {
    out_message(M_IDENTIFIED, 0, NULL);
    waiting = false;
    hook = 0;
}

void identity(const uint8_t *bytes, size_t length) {
    const char *top = root();
    struct fields body = {bytes, bytes + length};
    struct field field;
    while (next_field(&body, &field) == 1) {
        if (field.tag == T_GENERATION)
            field_u64(&field, &generation);
        else if (field.tag == T_SEED)
            mix_in(&field);
        else if (field.tag == T_MACHINE_ID && top)
            set_machine_id(top, &field);
        else if (field.tag == T_HOSTNAME && getpid() == 1)
            (void)!sethostname((const char *)field.bytes, field.length);
    }
    if (top) {
        write_generation(top);
        start_hook(top);
    }
    waiting = true;
    if (hook == 0)
        answer();
}

bool identity_hook_ended(pid_t pid) {
    if (!waiting || pid != hook)
        return false;
    answer();
    return true;
}

void identity_step(void) {
    if (waiting && awake_ms() >= hook_until)
        answer(); /* it runs on; nobody waits for it any longer */
}

bool identity_waiting(void) {
    return waiting;
}
