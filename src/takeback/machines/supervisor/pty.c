/* Terminals. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor.h"

/* Open a terminal whose other side is `name`, owned by `uid`; returns the master, or -1 and errno. */
int pty_open(uint16_t cols, uint16_t rows, uid_t uid, char *name, size_t room) {
    int number, unlocked = 0;
    int flags = O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
    int master = open("/dev/ptmx", flags);
    if (master < 0)
        master = open("/dev/pts/ptmx", flags);
    if (master < 0)
        return -1;
    if (ioctl(master, TIOCSPTLCK, &unlocked) < 0 || ioctl(master, TIOCGPTN, &number) < 0) {
        int error = errno;
        close(master);
        errno = error;
        return -1;
    }
    snprintf(name, room, "/dev/pts/%d", number);
    if (uid != getuid()) {
        /* Where it may not be done the terminal works all the same, unless it is opened again by name. */
        if (chown(name, uid, (gid_t)-1) == 0)
            (void)!chmod(name, 0620);
    }
    pty_resize(master, NULL, cols, rows);
    return master;
}

void pty_resize(int master, const struct process *process, uint16_t cols, uint16_t rows) {
    struct winsize size = {.ws_col = cols, .ws_row = rows}, before = {0};
    pid_t foreground = 0;
    ioctl(master, TIOCGWINSZ, &before);
    if (ioctl(master, TIOCSWINSZ, &size) < 0 || (before.ws_col == cols && before.ws_row == rows))
        return;
    /* Linux has told the foreground group by now; gVisor tells nobody, nor which group that is: then all of the session
     * hear it, and who has no handler is not disturbed. */
    if (process && (ioctl(master, TIOCGPGRP, &foreground) < 0 || foreground <= 0))
        session_kill(process, SIGWINCH);
}
