/* Opening what lies below a folder without ever following a link out of it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

/* The next part of a path; 0 at its end, -1 for what is no plain name. */
static int next_part(const char **path, char *part) {
    const char *at = *path;
    for (;;) {
        while (*at == '/')
            at++;
        if (at[0] != '.' || (at[1] != '/' && at[1] != 0))
            break;
        at++;
    }
    size_t length = strcspn(at, "/");
    *path = at + length;
    if (length == 0)
        return 0;
    if (length > NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(part, at, length);
    part[length] = 0;
    if (strcmp(part, "..") == 0) {
        errno = EPERM;
        return -1;
    }
    return 1;
}

static bool more_parts(const char *path) {
    char part[NAME_MAX + 1];
    return next_part(&path, part) != 0;
}

static int enter(int folder, const char *part, bool make) {
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(folder, part, flags);
    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    if (mkdirat(folder, part, 0777) < 0 && errno != EEXIST)
        return -1;
    return openat(folder, part, flags);
}

int open_parent(int root, const char *path, bool make, const char **last) {
    static char part[NAME_MAX + 1];
    *last = part;
    part[0] = 0;
    if (path[0] == '/') {
        errno = EPERM;
        return -1;
    }
    int folder = fcntl(root, F_DUPFD_CLOEXEC, 3);
    while (folder >= 0) {
        int got = next_part(&path, part);
        if (got == 0) { /* only for the root itself: the loop ends at a last part */
            part[0] = 0;
            return folder;
        }
        if (got > 0 && !more_parts(path))
            return folder;
        int inner = got < 0 ? -1 : enter(folder, part, make);
        int error = errno;
        close(folder);
        errno = error;
        folder = inner;
    }
    return -1;
}
