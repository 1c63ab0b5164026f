/* The least first process that `sudo` needs: what the supervisor does of it, and nothing else. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sudo.h"

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    int status = 0;
    if (strcmp(slash ? slash + 1 : argv[0], "sudo") == 0)
        return sudo_main(argc, argv);
    sudo_serve();
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1000) < 0 || setuid(1000) < 0)
            return 9;
        execv(argv[1], argv + 1);
        return 8;
    }
    while (waitpid(child, &status, 0) != child)
        ;
    return WEXITSTATUS(status);
}
