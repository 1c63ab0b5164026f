/* The child between vfork and exec. It shares our memory: only system calls, and `launch` to say what went wrong.
 * Under gVisor each call of a thread just born takes tens of microseconds: none that is not needed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

static _Noreturn void give_up(struct launch *launch, const char *stage, const char *culprit) {
    launch->error = errno ? errno : EIO;
    launch->stage = stage;
    launch->culprit = culprit;
    _exit(127);
}

static void become(struct launch *launch) {
    /* An ordinary user's supervisor can only be that user, and setgroups is not for it. */
    if (!launch->of_root && launch->uid == getuid() && launch->gid == getgid())
        return;
    /* The bare calls: the library's would signal threads, and there are none. */
    if (syscall(SYS_setgroups, launch->group_count, launch->groups) < 0 ||
        syscall(SYS_setresgid, launch->gid, launch->gid, launch->gid) < 0 ||
        syscall(SYS_setresuid, launch->uid, launch->uid, launch->uid) < 0)
        give_up(launch, "user", "");
}

static void standard_files(struct launch *launch) {
    int fds[3] = {launch->fds[0], launch->fds[1], launch->fds[2]};
    if (launch->pty) {
        fds[0] = open(launch->terminal, O_RDWR | O_NOCTTY);
        if (fds[0] < 0 || ioctl(fds[0], TIOCSCTTY, 0) < 0)
            give_up(launch, "pty", launch->terminal);
        fds[1] = fds[2] = fds[0];
    }
    for (int at = 0; at < 3; at++)
        if (dup2(fds[at], at) < 0)
            give_up(launch, "fork", "");
    if (launch->pty && fds[0] > 2)
        close(fds[0]);
}

/* execve, and a shell for a file that is neither a binary nor says whose script it is. */
static void try_exec(struct launch *launch, const char *file) {
    char **argv = launch->argv;
    execve(file, argv, launch->env);
    if (errno != ENOEXEC)
        return;
    char *name = argv[0];
    argv[-1] = "sh";
    argv[0] = (char *)file;
    execve("/bin/sh", argv - 1, launch->env);
    argv[0] = name;
    errno = ENOEXEC;
}

static void search(struct launch *launch) {
    char file[PATH_MAX];
    const char *name = launch->argv[0];
    size_t length = strlen(name);
    int denied = 0;
    if (strchr(name, '/')) {
        try_exec(launch, name);
        return;
    }
    for (const char *at = launch->path, *end; length > 0 && at; at = *end ? end + 1 : NULL) {
        end = strchrnul(at, ':');
        size_t folder = (size_t)(end - at);
        if (folder + length + 2 > sizeof file)
            continue;
        memcpy(file, at, folder);
        file[folder] = '/';
        memcpy(file + (folder ? folder + 1 : 0), name, length + 1); /* an empty part is the current folder */
        try_exec(launch, file);
        if (errno == EACCES)
            denied = errno;
        else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENAMETOOLONG)
            return;
    }
    errno = denied ? denied : ENOENT;
}

static _Noreturn void child(struct launch *launch) {
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t none;
    setsid();
    sigaction(SIGPIPE, &usual, NULL);
    sigaction(SIGCHLD, &usual, NULL); /* our handlers would write into the supervisor's memory until exec */
    sigaction(SIGTERM, &usual, NULL);
    if (files_limit.rlim_cur != files_limit.rlim_max) /* else ours was not raised */
        setrlimit(RLIMIT_NOFILE, &files_limit);
    standard_files(launch);
    if (launch->of_first) /* what only the supervisor needs, to set the host's name */
        prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0);
    become(launch);
    if (chdir(launch->cwd) < 0)
        give_up(launch, "cwd", launch->cwd);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    search(launch);
    give_up(launch, "exec", launch->argv[0]);
}

pid_t launch_run(struct launch *launch) {
    sigset_t all, before;
    static pid_t self;
    static uid_t user;
    if (!self) {
        self = getpid();
        user = geteuid();
    }
    launch->of_first = self == 1;
    launch->of_root = user == 0;
    /* No handler of ours may run in the child: it would write into our memory. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        child(launch);
    int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        launch->error = error;
    else if (launch->error)
        waitpid(pid, NULL, 0);
    return pid;
}
