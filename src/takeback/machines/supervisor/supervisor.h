/* What the parts of the supervisor know of each other: processes, followers, the loop's clock, the output queue. */
#ifndef SUPERVISOR_H
#define SUPERVISOR_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "ring.h"
#include "wire.h"

enum {
    PROCESSES_MAX = 1024, /* running, or ended and followed, or with a pipe that something still holds */
    ENDED_KEPT = 64,
    FOLLOWERS_MAX = 4096,
    STDIN_MAX = 256 * 1024,
    LATE_MS = 10000,
};

enum state { RUNNING, ENDING, ENDED };

struct follower {
    struct follower *next; /* in the list of all */
    struct process *process;
    uint32_t id;
    uint64_t began, cursor, credit;
    uint64_t until;    /* ENDED is sent at this offset, once the process ended */
    int64_t late_since; /* awake_ms() when credit ran out with output waiting; 0: not late */
    bool gone;
};

struct process {
    struct process *next;
    uint32_t id;
    pid_t pid;
    struct body shown; /* ARG and CWD fields for LIST */
    uint64_t uid, timeout_ms;
    int64_t deadline; /* awake_ms() of the time limit; 0: none */
    bool session, pty, timed_out, forgotten;
    enum state state;
    int out, err; /* our ends; -1: closed; of a pty `out` is its master */
    int in;
    uint8_t *in_data; /* stdin not yet taken */
    size_t in_start, in_length;
    uint64_t in_total;
    bool in_eof, accept_due;
    int status, signo;
    int64_t started_ms, ended_ms, started_mono, ended_mono;
    struct ring ring;
    bool draining;     /* its session is dead: what is in the pipes now is its last output */
    long out_left, err_left;
    int64_t ending_since, scan_at, scan_pause;
};

/* loop.c: time. awake_ms leaves out the time the whole machine slept or lay in a snapshot. */
int64_t awake_ms(void);
int64_t monotonic_ms(void);
int64_t wall_ms(void);
extern int64_t started_at;

/* out.c: towards the host. */
void out_message(uint8_t type, uint32_t id, const struct body *body); /* in turn */
void out_urgent(uint8_t type, uint32_t id, const struct body *body);  /* before all others, also while quiet */
void out_error(uint32_t id, int error, const char *text);
void out_forget_all(void); /* all that waits, but for the rest of a frame begun */
void out_quiet(bool quiet);
bool out_is_quiet(void);
bool out_crowded(void); /* so much waits that no more requests should be read */
void out_pump(bool host_ready); /* poll said that the host takes more */
bool out_wants_poll(void); /* the last frame did not fit */
int64_t out_retry_at(void); /* monotonic_ms to try again without poll's word; 0: none */

/* in.c: from the host. */
bool in_wants(void);
bool in_stalled(void); /* requests wait until the answers before them are out */
int64_t in_retry_at(void);
void in_ready(void);
void in_parse(void);

/* requests.c */
void request(uint8_t type, uint8_t flags, uint32_t id, const uint8_t *body, size_t length);

/* processes.c: the table. */
extern struct process *processes;
struct process *process_find(uint32_t id);
struct process *process_of_pid(pid_t pid);
unsigned process_count(void);
struct process *process_add(uint32_t id);
void process_forget(struct process *process);
void process_sweep(void); /* frees what was forgotten and is done, and the oldest ended above ENDED_KEPT */
void process_list(void);
void put_ending(struct body *body, const struct process *process);

/* spawn.c */
void spawn(uint32_t id, const uint8_t *body, size_t length);
extern struct rlimit files_limit;

/* output.c: the children's output. */
bool process_readable(const struct process *process); /* there is room by the rule that holds processes back */
void process_read(struct process *process, bool is_stderr);
bool process_drained(struct process *process);

/* followers.c */
void follow(uint32_t id, struct process *process, uint64_t cursor, uint64_t credit);
void follow_credit(uint32_t id, uint64_t total);
void unfollow(uint32_t id);
void unfollow_all(void);
void followers_ended(struct process *process);
void followers_gone(const struct process *process);
bool followers_of(const struct process *process);
void followers_sweep(void);
uint64_t followers_hold(const struct process *process); /* the oldest offset that must not be lost; UINT64_MAX: none */
bool followers_any_late(void);
size_t followers_frame(uint8_t *frame); /* builds the next frame; 0: nothing may be sent */

/* stdin.c */
void stdin_data(struct process *process, uint32_t id, const uint8_t *bytes, size_t length, bool eof);
void stdin_flush(struct process *process);
void stdin_close(struct process *process);
void stdin_tell_all(void); /* a new host must know what is taken, to know how much it may send ahead */
size_t stdin_accepted(uint8_t *frame);

/* session.c */
void session_kill(const struct process *process, int signo);
void processes_reap(void);
void processes_step(void); /* time limits, and the ends that are under way */
int64_t processes_wake_at(void); /* awake_ms of the next step that is due; 0: none */
void shutdown_begin(uint64_t grace_ms);
void shutdown_step(void);
bool shutdown_running(void);

/* pty.c */
int pty_open(uint16_t cols, uint16_t rows, uid_t uid, char *name, size_t room);
void pty_resize(int master, const struct process *process, uint16_t cols, uint16_t rows);

/* identity.c */
void identity(const uint8_t *body, size_t length);
bool identity_hook_ended(pid_t pid);
void identity_step(void);
bool identity_waiting(void);
extern uint64_t generation;

/* files.c: `init file OP ...`; returns the exit status. */
int files_main(int argc, char **argv);

#endif
