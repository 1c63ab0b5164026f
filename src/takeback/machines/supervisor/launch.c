/* The body of SPAWN as arrays that exec takes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

enum { GROUPS_MAX = 1024, SHOWN_MAX = 8192, DAYS_400_MS = 400 * 86400 };

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static int count_fields(const uint8_t *bytes, size_t length, size_t *args, size_t *envs, size_t *groups) {
    struct fields body = {bytes, bytes + length};
    struct field field;
    int got;
    *args = *envs = *groups = 0;
    while ((got = next_field(&body, &field)) == 1) {
        *args += field.tag == T_ARG;
        *envs += field.tag == T_ENV;
        *groups += field.tag == T_GROUP;
    }
    return got < 0 ? EPROTO : *args == 0 || *groups > GROUPS_MAX ? EINVAL : 0;
}

/* Copy a text field; NULL when it holds a zero byte. */
static char *text(char **free_text, const struct field *field) {
    char *to = *free_text;
    if (memchr(field->bytes, 0, field->length))
        return NULL;
    memcpy(to, field->bytes, field->length);
    to[field->length] = 0;
    *free_text += field->length + 1;
    return to;
}

static int read_number(struct launch *launch, const struct field *field) {
    uint64_t value;
    if (!field_u64(field, &value))
        return EPROTO;
    switch (field->tag) {
    case T_UID:
        launch->uid = (uid_t)value;
        return value >= UINT32_MAX ? EINVAL : 0;
    case T_GID:
        launch->gid = (gid_t)value;
        return value >= UINT32_MAX ? EINVAL : 0;
    case T_GROUP:
        launch->groups[launch->group_count++] = (gid_t)value;
        return value >= UINT32_MAX ? EINVAL : 0;
    case T_TIMEOUT_MS:
        launch->timeout_ms = value < DAYS_400_MS * 1000ULL ? value : DAYS_400_MS * 1000ULL;
        return 0;
    case T_STDIN:
        launch->with_stdin = value != 0;
        return 0;
    case T_SESSION:
        launch->session = value != 0;
        return 0;
    case T_FOLLOWER:
        launch->follower = (uint32_t)value;
        return value == 0 || value > UINT32_MAX ? EINVAL : 0;
    case T_CREDIT:
        launch->credit = value;
        return 0;
    default:
        return 0;
    }
}

static int read_fields(struct launch *launch, const uint8_t *bytes, size_t length, char *free_text) {
    struct fields body = {bytes, bytes + length};
    struct field field;
    size_t args = 0, envs = 0;
    while (next_field(&body, &field) == 1) {
        char *copied = "";
        int error = 0;
        if (field.tag == T_ARG || field.tag == T_ENV || field.tag == T_CWD) {
            copied = text(&free_text, &field);
            if (!copied)
                return EINVAL;
        }
        if (field.tag == T_ARG) {
            launch->argv[args++] = copied;
        } else if (field.tag == T_ENV) {
            launch->env[envs++] = copied;
            if (strncmp(copied, "PATH=", 5) == 0)
                launch->path = copied + 5;
        } else if (field.tag == T_CWD) {
            launch->cwd = copied;
        } else if (field.tag == T_PTY) {
            if (field.length != 4)
                return EPROTO;
            launch->pty = true;
            launch->cols = load_u16(field.bytes);
            launch->rows = load_u16(field.bytes + 2);
        } else if (field.tag >= T_UID && field.tag <= T_CREDIT) {
            error = read_number(launch, &field);
        }
        if (error)
            return error;
    }
    return 0;
}

int launch_read(struct launch *launch, const uint8_t *bytes, size_t length) {
    size_t args, envs, groups;
    *launch = (struct launch){.path = default_path, .cwd = "/", .uid = getuid(), .gid = getgid(),
                              .fds = {-1, -1, -1}, .stage = "fork", .culprit = ""};
    int error = count_fields(bytes, length, &args, &envs, &groups);
    if (error)
        return error;
    char **argv = calloc(args + 3, sizeof *argv);
    launch->memory[0] = argv;
    launch->memory[1] = launch->env = calloc(envs + 1, sizeof *launch->env);
    launch->memory[2] = launch->groups = calloc(groups + 1, sizeof *launch->groups);
    launch->memory[3] = malloc(length + 1);
    for (int at = 0; at < 4; at++)
        if (!launch->memory[at])
            return ENOMEM;
    launch->argv = argv + 1;
    /* Each text needs its length and a zero; each field has five bytes more than that. */
    return read_fields(launch, bytes, length, launch->memory[3]);
}

void launch_free(struct launch *launch) {
    for (int at = 0; at < 4; at++)
        free(launch->memory[at]);
}

void launch_show(const struct launch *launch, struct body *body) {
    size_t left = SHOWN_MAX;
    for (char **arg = launch->argv; *arg && left > 0; arg++) {
        size_t length = strlen(*arg) < left ? strlen(*arg) : left;
        put_field(body, T_ARG, *arg, length);
        left -= length + 5 < left ? length + 5 : left;
    }
    size_t length = strlen(launch->cwd);
    put_field(body, T_CWD, launch->cwd, length < SHOWN_MAX ? length : SHOWN_MAX);
}
