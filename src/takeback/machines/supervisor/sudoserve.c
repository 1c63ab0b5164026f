/* Runs as root what `sudo` asks for. PID 1 listens, and gives each request a process of its own, which waits for the
 * command, hands signals on and answers with how it ended.
 *
 * Who asks is known by SCM_CREDENTIALS (gVisor answers SO_PEERCRED with the asker's own): root, and the user `runtime`.
 *
 * The command is in a session of its own, with the caller's streams but no controlling terminal. When the caller dies,
 * its process group is killed. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sudo.h"
#include "supervisor.h"

enum { REQUEST_S = 5 };

/* In the abstract namespace: there in any image, and gone with the machine. */
static const char NAME[] = "\0takeback-sudo";

static struct sockaddr_un address(socklen_t *length) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, NAME, sizeof NAME - 1);
    *length = offsetof(struct sockaddr_un, sun_path) + sizeof NAME - 1;
    return name;
}

int sudo_connect(void) {
    socklen_t length;
    struct sockaddr_un name = address(&length);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name, length) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Nobody but `runtime` by name: reading the file each time, as a snapshot or its user may have changed it. */
static bool allowed(uid_t uid) {
    char line[1024];
    unsigned long found;
    bool yes = uid == 0;
    FILE *passwd = yes ? NULL : fopen("/etc/passwd", "re");
    while (passwd && !yes && fgets(line, sizeof line, passwd))
        yes = sscanf(line, "runtime:%*[^:]:%lu:", &found) == 1 && found == uid;
    if (passwd)
        fclose(passwd);
    return yes;
}

void sudo_become(const struct sudo_request *asked, const char *folder, char **argv, char **envp) {
    gid_t groups[SUDO_GROUPS_MAX];
    for (uint32_t at = 0; at < asked->group_count; at++)
        groups[at] = asked->groups[at];
    if (setgroups(asked->group_count, groups) < 0 || setresgid(asked->gid, asked->gid, asked->gid) < 0 ||
        setresuid(asked->uid, asked->uid, asked->uid) < 0) {
        fprintf(stderr, "sudo: cannot become user %u: %s\n", asked->uid, strerror(errno));
        _exit(1);
    }
    if (chdir(folder) < 0 && chdir("/") < 0)
        _exit(1);
    environ = envp; /* its PATH is the one to search */
    execvp(argv[0], argv);
    fprintf(stderr, "sudo: %s: %s\n", argv[0], errno == ENOENT ? "command not found" : strerror(errno));
    _exit(1);
}

static bool whole(int fd, char *into, size_t length) {
    while (length) {
        ssize_t got = read(fd, into, length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        into += got;
        length -= (size_t)got;
    }
    return true;
}

/* Receives the head of a request with its three streams and the asker's credentials. */
static bool received(int fd, struct sudo_request *asked, int streams[3], uid_t *who) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = {asked, sizeof *asked};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    bool have_streams = false, have_who = false;
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0 || (message.msg_flags & MSG_CTRUNC))
        return false;
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        if (one->cmsg_level != SOL_SOCKET)
            continue;
        if (one->cmsg_type == SCM_RIGHTS && one->cmsg_len == CMSG_LEN(3 * sizeof(int))) {
            memcpy(streams, CMSG_DATA(one), 3 * sizeof(int));
            have_streams = true;
        } else if (one->cmsg_type == SCM_CREDENTIALS && one->cmsg_len == CMSG_LEN(sizeof(struct ucred))) {
            struct ucred asker;
            memcpy(&asker, CMSG_DATA(one), sizeof asker);
            *who = asker.uid;
            have_who = true;
        }
    }
    if (!have_streams || !have_who || !whole(fd, (char *)asked + got, sizeof *asked - (size_t)got))
        return false;
    return asked->magic == SUDO_MAGIC && asked->group_count <= SUDO_GROUPS_MAX && asked->length <= SUDO_BLOB_MAX &&
           asked->argument_count >= 1 && asked->argument_count <= asked->length &&
           asked->environment_count <= asked->length;
}

/* Finds `count` texts in the rest of a request; NULL when they are not all there. */
static char **texts(char **at, const char *end, uint32_t count) {
    char **found = calloc((size_t)count + 1, sizeof *found);
    for (uint32_t index = 0; found && index < count; index++) {
        char *nul = *at < end ? memchr(*at, 0, (size_t)(end - *at)) : NULL;
        if (!nul)
            return NULL;
        found[index] = *at;
        *at = nul + 1;
    }
    return found;
}

static volatile sig_atomic_t ended;

static void on_child(int signo) {
    (void)signo;
    ended = 1;
}

/* Waits for the command; what the caller sends is signals, one a byte. */
static void attend(int fd, pid_t command, const sigset_t *usual) {
    int status = 0;
    for (;;) {
        struct pollfd caller = {fd, POLLIN, 0};
        if (waitpid(command, &status, WNOHANG) == command)
            break;
        ended = 0;
        if (ppoll(&caller, 1, NULL, usual) <= 0)
            continue;
        unsigned char signo;
        ssize_t got = read(fd, &signo, 1);
        if (got == 1 && signo < NSIG) {
            kill(-command, signo);
        } else if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
            kill(-command, SIGHUP);
            kill(-command, SIGKILL);
            waitpid(command, &status, 0);
            break;
        }
    }
    (void)!write(fd, &status, sizeof status);
}

static void serve(int fd) {
    struct sudo_request asked;
    int streams[3], on = 1;
    uid_t who = (uid_t)-1;
    sigset_t child, usual;
    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    (void)!write(fd, "", 1); /* the caller sends only now: credentials come with what is sent after SO_PASSCRED */
    if (!received(fd, &asked, streams, &who))
        _exit(1);
    char *blob = malloc((size_t)asked.length + 1), *at = blob;
    if (!blob || !whole(fd, blob, asked.length))
        _exit(1);
    char **folder = texts(&at, blob + asked.length, 1);
    char **argv = folder ? texts(&at, blob + asked.length, asked.argument_count) : NULL;
    char **envp = argv ? texts(&at, blob + asked.length, asked.environment_count) : NULL;
    if (!envp)
        _exit(1);
    if (!allowed(who)) {
        dprintf(streams[2], "sudo: user %u may not become another\n", who);
        int refused = 1 << 8;
        (void)!write(fd, &refused, sizeof refused);
        _exit(1);
    }
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &usual);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = on_child}, NULL);
    alarm(0);
    pid_t command = fork();
    if (command == 0) {
        sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        sigprocmask(SIG_SETMASK, &usual, NULL);
        setsid();
        for (int at_fd = 0; at_fd < 3; at_fd++)
            if (dup2(streams[at_fd], at_fd) < 0)
                _exit(1);
        sudo_become(&asked, folder[0], argv, envp);
    }
    for (int at_fd = 0; at_fd < 3; at_fd++)
        close(streams[at_fd]); /* else a reader of them would wait for us */
    if (command > 0)
        attend(fd, command, &usual);
    _exit(0);
}

int sudo_listen(void) {
    socklen_t length;
    struct sockaddr_un name = address(&length);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&name, length) < 0 || listen(fd, 64) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* In the process of one request: nothing of PID 1's may reach it, least of all the channel. */
static void apart(int caller) {
    sigset_t none;
    setsid();
    prctl(PR_SET_NAME, "takeback-sudo");
    for (int signo = 1; signo < NSIG; signo++)
        signal(signo, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int stream = 0; stream < 3; stream++)
        dup2(null, stream);
    int kept = dup2(caller, 3); /* every other one is closed, what PID 1 relays too */
    fcntl(kept, F_SETFD, FD_CLOEXEC);
    close_range(4, ~0U, 0);
    setrlimit(RLIMIT_NOFILE, &files_limit);
    prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0);
    alarm(REQUEST_S); /* who says nothing must not be waited for */
    serve(kept);
}

void sudo_accept(int listener) {
    int caller = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (caller < 0)
        return;
    if (fork() == 0)
        apart(caller);
    close(caller);
}
