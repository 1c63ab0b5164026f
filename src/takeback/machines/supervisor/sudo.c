/* `sudo` in a sandbox: passwordless, for an engine that ignores set-user-ID bits (gVisor before 2025), where Debian's
 * own says that "no new privileges" is set. The image links /usr/bin/sudo to the supervisor, which runs this when it is
 * called by that name; PID 1's helper (sudoserve.c) is asked to run the command.
 *
 * Not covered: rules (everything is allowed), editing, logging, and a controlling terminal for the command. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sudo.h"

#define SAFE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The environment that stays without -E: as Debian's, and the proxies, since they are the only way outside here. */
static const char *const KEPT[] = {
    "COLORTERM", "DISPLAY", "LANG", "LANGUAGE", "LC_", "TERM", "TZ", "XAUTHORITY", "http_proxy", "https_proxy",
    "ftp_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NODE_USE_ENV_PROXY", "DEBIAN_FRONTEND",
};

struct account {
    char name[64], home[256], shell[256];
    uint32_t uid, gid;
};

struct wish {
    struct account target;
    bool keep_all, login, shell, have_group;
    uint32_t gid;
};

static void die(const char *what, const char *about) {
    fprintf(stderr, "sudo: %s%s\n", what, about);
    exit(1);
}

/* Finds a user by name, or by `#ID`, in the sandbox's own file: a static program has no name service. */
static bool find_user(const char *asked, struct account *found) {
    char line[1024];
    bool yes = false;
    FILE *passwd = fopen("/etc/passwd", "re");
    while (passwd && !yes && fgets(line, sizeof line, passwd)) {
        memset(found, 0, sizeof *found);
        char *fields[7], *rest = line;
        int count = 0;
        line[strcspn(line, "\n")] = 0;
        while (count < 7 && rest)
            fields[count++] = strsep(&rest, ":");
        if (count < 7)
            continue;
        found->uid = (uint32_t)strtoul(fields[2], NULL, 10);
        found->gid = (uint32_t)strtoul(fields[3], NULL, 10);
        yes = asked[0] == '#' ? found->uid == strtoul(asked + 1, NULL, 10) : strcmp(fields[0], asked) == 0;
        snprintf(found->name, sizeof found->name, "%s", fields[0]);
        snprintf(found->home, sizeof found->home, "%s", *fields[5] ? fields[5] : "/");
        snprintf(found->shell, sizeof found->shell, "%s", *fields[6] ? fields[6] : "/bin/sh");
    }
    if (passwd)
        fclose(passwd);
    return yes;
}

/* Fills in the groups that name the user; with `named`, only looks for that group's number. */
static bool find_groups(const struct account *user, struct sudo_request *asked, const char *named, uint32_t *gid) {
    char line[4096];
    bool found = false;
    FILE *group = fopen("/etc/group", "re");
    if (asked)
        asked->groups[asked->group_count++] = user->gid;
    while (group && fgets(line, sizeof line, group)) {
        char *rest = line;
        line[strcspn(line, "\n")] = 0;
        char *name = strsep(&rest, ":"), *skipped = strsep(&rest, ":"), *number = strsep(&rest, ":"), *member;
        if (!skipped || !number || !rest)
            continue;
        if (named && strcmp(name, named) == 0) {
            *gid = (uint32_t)strtoul(number, NULL, 10);
            found = true;
        }
        while (asked && (member = strsep(&rest, ",")) && asked->group_count < SUDO_GROUPS_MAX)
            if (strcmp(member, user->name) == 0)
                asked->groups[asked->group_count++] = (uint32_t)strtoul(number, NULL, 10);
    }
    if (group)
        fclose(group);
    return found;
}

static char *joined(const char *name, const char *value) {
    char *text = NULL;
    if (asprintf(&text, "%s=%s", name, value) < 0)
        die("no memory", "");
    return text;
}

static void set(char **env, uint32_t *count, const char *name, const char *value) {
    size_t length = strlen(name);
    for (uint32_t at = 0; at < *count; at++)
        if (strncmp(env[at], name, length) == 0 && env[at][length] == '=') {
            env[at] = joined(name, value);
            return;
        }
    env[(*count)++] = joined(name, value);
}

static bool kept(const char *variable) {
    for (size_t at = 0; at < sizeof KEPT / sizeof *KEPT; at++) {
        size_t length = strlen(KEPT[at]);
        if (strncmp(variable, KEPT[at], length) == 0 && (KEPT[at][length - 1] == '_' || variable[length] == '='))
            return true;
    }
    return false;
}

static char **environment(
    const struct wish *wish, char **given, int given_count, const char *command, uint32_t *count) {
    static const char *const own[] = {"SUDO_USER", "SUDO_UID", "SUDO_GID"};
    char number[3][64], self[16];
    struct account caller;
    uint32_t have = 0;
    *count = 0;
    while (environ[have])
        have++;
    char **env = calloc((size_t)have + (size_t)given_count + 16, sizeof *env);
    if (!env)
        die("no memory", "");
    for (uint32_t at = 0; at < have; at++)
        if (strchr(environ[at], '=') && ((wish->keep_all && !wish->login) || kept(environ[at])))
            env[(*count)++] = environ[at];
    snprintf(self, sizeof self, "#%u", getuid());
    if (!find_user(self, &caller))
        snprintf(caller.name, sizeof caller.name, "%s", self);
    snprintf(number[0], sizeof number[0], "%s", caller.name);
    snprintf(number[1], sizeof number[1], "%u", getuid());
    snprintf(number[2], sizeof number[2], "%u", getgid());
    for (int at = 0; at < 3; at++)
        set(env, count, own[at], number[at]);
    set(env, count, "SUDO_COMMAND", command);
    set(env, count, "PATH", SAFE_PATH);
    set(env, count, "HOME", wish->target.home);
    set(env, count, "USER", wish->target.name);
    set(env, count, "LOGNAME", wish->target.name);
    set(env, count, "SHELL", wish->target.shell);
    for (int at = 0; at < given_count; at++) {
        char *equals = strchr(given[at], '=');
        *equals = 0;
        set(env, count, given[at], equals + 1);
        *equals = '=';
    }
    return env;
}

static int broker = -1;

static void hand_on(int signo) {
    unsigned char byte = (unsigned char)signo;
    int before = errno;
    (void)!write(broker, &byte, 1);
    errno = before;
}

static bool send_all(int fd, const char *bytes, size_t length) {
    while (length) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool get_all(int fd, void *into, size_t length) {
    for (size_t have = 0; have < length;) {
        ssize_t got = read(fd, (char *)into + have, length - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        have += (size_t)got;
    }
    return true;
}

static bool send_head(int fd, const struct sudo_request *asked) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)asked, sizeof *asked};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int streams[3] = {0, 1, 2};
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(head), streams, sizeof streams);
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *asked;
}

/* Asks PID 1's helper to run it; returns how it ended as an exit status. */
static int ask(struct sudo_request *asked, const char *folder, char **argv, char **envp) {
    static const int passed[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
    size_t length = strlen(folder) + 1;
    for (uint32_t at = 0; at < asked->argument_count; at++)
        length += strlen(argv[at]) + 1;
    for (uint32_t at = 0; at < asked->environment_count; at++)
        length += strlen(envp[at]) + 1;
    char *blob = length <= SUDO_BLOB_MAX ? malloc(length) : NULL, *end = blob, go;
    if (!blob)
        die("the arguments and the environment are too long", "");
    end = stpcpy(end, folder) + 1;
    for (uint32_t at = 0; at < asked->argument_count; at++)
        end = stpcpy(end, argv[at]) + 1;
    for (uint32_t at = 0; at < asked->environment_count; at++)
        end = stpcpy(end, envp[at]) + 1;
    asked->length = (uint32_t)length;
    broker = sudo_connect();
    if (broker < 0)
        die("the sandbox's first process does not answer: ", strerror(errno));
    if (!get_all(broker, &go, 1) || !send_head(broker, asked) || !send_all(broker, blob, length))
        die("the request broke off: ", strerror(errno));
    for (size_t at = 0; at < sizeof passed / sizeof *passed; at++)
        sigaction(passed[at], &(struct sigaction){.sa_handler = hand_on, .sa_flags = SA_RESTART}, NULL);
    int status;
    if (!get_all(broker, &status, sizeof status))
        die("the sandbox's first process went away", "");
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int usage(void) {
    fprintf(stderr, "usage: sudo [-EHins] [-u user] [-g group] [-D folder] [VAR=value] command ...\n");
    return 1;
}

int sudo_main(int argc, char **argv) {
    struct wish wish = {0};
    const char *user = "root", *group = NULL, *folder = NULL;
    int option;
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        argv[1] = "-V";
    /* + : what follows the command is the command's. */
    while ((option = getopt(argc, argv, "+AbC:D:EeHh:ikKlnPp:Sr:R:t:T:sU:u:g:vV")) != -1) {
        switch (option) {
        case 'u': user = optarg; break;
        case 'g': group = optarg; break;
        case 'D': folder = optarg; break;
        case 'E': wish.keep_all = true; break;
        case 'i': wish.login = true; break;
        case 's': wish.shell = true; break;
        case 'k': case 'K': case 'v':
            if (optind == argc)
                return 0;
            break;
        case 'l': printf("everything, as everybody, without a password\n"); return 0;
        case 'V': printf("Sudo version 1.9 (takeback's, for sandboxes)\n"); return 0;
        case 'A': case 'H': case 'n': case 'P': case 'p': case 'S': case 'h': case 'C': case 'T': case 'U': break;
        default: return usage();
        }
    }
    if (!find_user(user, &wish.target))
        die("unknown user ", user);
    if (group && !(group[0] == '#' ? (wish.gid = (uint32_t)strtoul(group + 1, NULL, 10), true)
                                   : find_groups(NULL, NULL, group, &wish.gid)))
        die("unknown group ", group);
    char **given = argv + optind;
    int given_count = 0;
    while (optind < argc && strchr(argv[optind], '=') && argv[optind][0] != '/' && argv[optind][0] != '=')
        optind++, given_count++;
    char **command = argv + optind, *shell[5] = {0};
    int count = argc - optind;
    if (wish.login || wish.shell) {
        const char *own = getenv("SHELL");
        char *line = calloc(1, 1);
        for (int at = 0; at < count; at++) {
            char *more = NULL;
            if (asprintf(&more, "%s%s%s", line, at ? " " : "", command[at]) < 0)
                die("no memory", "");
            line = more;
        }
        int at = 0;
        shell[at++] = wish.login || !own || !*own ? wish.target.shell : (char *)own;
        if (wish.login)
            shell[at++] = "-l";
        if (count)
            shell[at++] = "-c", shell[at++] = line;
        command = shell;
        count = at;
    }
    if (count < 1)
        return usage();
    char here[4096];
    if (!folder)
        folder = wish.login ? wish.target.home : getcwd(here, sizeof here) ? here : "/";
    struct sudo_request asked = {
        .magic = SUDO_MAGIC, .uid = wish.target.uid, .gid = group ? wish.gid : wish.target.gid};
    find_groups(&wish.target, &asked, NULL, NULL);
    char **envp = environment(&wish, given, given_count, command[0], &asked.environment_count);
    asked.argument_count = (uint32_t)count;
    if (geteuid() == 0)
        sudo_become(&asked, folder, command, envp);
    return ask(&asked, folder, command, envp);
}
