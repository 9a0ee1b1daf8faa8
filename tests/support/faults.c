/* Faults of a file system, for tests: preloaded, it counts the calls that change anything below a directory (or, if
 * told so, those that look at it), and at the chosen one kills the process, or lets the call fail. It can also log
 * them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF = 0, KILL = 1, TORN = 2, FAIL = 3, FAIL_ON = 4 };

static char root[PATH_MAX];
static size_t root_length;
static long count, chosen = -1;
static int action, error_number;
static FILE *journal;

/* Which calls count: all that change something, or writes and syncs alone; or those that look at something. */
static int only_data, looks;

void faults_arm(const char *directory, long at, int what, int number, int data) {
    snprintf(root, sizeof root, "%s", directory);
    root_length = strlen(root);
    chosen = at;
    action = what;
    error_number = number;
    only_data = data;
    looks = 0;
    count = 0;
}

void faults_arm_looks(const char *directory, long at, int number) {
    faults_arm(directory, at, FAIL, number, 0);
    looks = 1;
}

long faults_count(void) { return count; }

void faults_journal(const char *path) {
    if (journal) fclose(journal);
    journal = path ? fopen(path, "we") : NULL;
    count = 0;
}

void faults_mark(const char *text) {
    if (journal) fprintf(journal, "mark\t%s\t\n", text);
}

static int below(const char *path) {
    return root_length && path && strncmp(path, root, root_length) == 0 &&
           (path[root_length] == '/' || path[root_length] == 0);
}

static const char *path_of(int fd, char *buffer) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, buffer, PATH_MAX - 1);
    buffer[length > 0 ? length : 0] = 0;
    return buffer;
}

/* Whether the call is to fail; it does not come back where the process is to die. */
static int strikes(const char *call, const char *path, const char *other, int is_data) {
    if (looks || !below(path) || (only_data && !is_data)) return 0;
    if (journal) fprintf(journal, "%s\t%s\t%s\n", call, path, other ? other : "");
    long number = __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
    if (chosen < 0 || number < chosen || (number > chosen && action != FAIL_ON)) return 0;
    if (action == KILL) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    if (action == FAIL || action == FAIL_ON) {
        errno = error_number;
        return 1;
    }
    return action == TORN ? 2 : 0;
}

/* The same for calls that look at something. */
static int fails(const char *path) {
    if (!looks || !below(path)) return 0;
    if (__atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST) != chosen) return 0;
    errno = error_number;
    return 1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    char buffer[PATH_MAX];
    int struck = root_length ? strikes("write", path_of(fd, buffer), NULL, 1) : 0;
    if (struck == 1) return -1;
    if (struck == 2) {
        real(fd, data, size / 2);
        die();
    }
    return real(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(pwrite64);
    char buffer[PATH_MAX];
    int struck = root_length ? strikes("write", path_of(fd, buffer), NULL, 1) : 0;
    if (struck == 1) return -1;
    if (struck == 2) die();
    return real(fd, data, size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int number) {
    REAL(writev);
    char buffer[PATH_MAX];
    int struck = root_length ? strikes("write", path_of(fd, buffer), NULL, 1) : 0;
    if (struck == 1) return -1;
    if (struck == 2) die();
    return real(fd, parts, number);
}

#define OF_DESCRIPTOR(name, is_data) \
    int name(int fd) { \
        REAL(name); \
        char buffer[PATH_MAX]; \
        int struck = root_length ? strikes(#name, path_of(fd, buffer), NULL, is_data) : 0; \
        if (struck == 1) return -1; \
        if (struck == 2) die(); \
        return real(fd); \
    }
OF_DESCRIPTOR(fsync, 1)
OF_DESCRIPTOR(fdatasync, 1)

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    char buffer[PATH_MAX];
    int struck = root_length ? strikes("ftruncate", path_of(fd, buffer), NULL, 0) : 0;
    if (struck == 1) return -1;
    if (struck == 2) die();
    return real(fd, length);
}

#define OF_PATH(name, parameters, arguments, path, other) \
    int name parameters { \
        REAL(name); \
        int struck = strikes(#name, path, other, 0); \
        if (struck == 1) return -1; \
        if (struck == 2) die(); \
        return real arguments; \
    }
OF_PATH(rename, (const char *from, const char *to), (from, to), to, from)
OF_PATH(unlink, (const char *path), (path), path, NULL)
OF_PATH(rmdir, (const char *path), (path), path, NULL)
OF_PATH(mkdir, (const char *path, mode_t mode), (path, mode), path, NULL)
OF_PATH(symlink, (const char *target, const char *path), (target, path), path, NULL)
OF_PATH(link, (const char *from, const char *to), (from, to), to, from)
OF_PATH(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), to, from)
OF_PATH(unlinkat, (int at, const char *path, int flags), (at, path, flags), path, NULL)
OF_PATH(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), path, NULL)
OF_PATH(symlinkat, (const char *target, int at, const char *path), (target, at, path), path, NULL)

#define COMMA ,
#define OPENS(name, place, given) \
    int name(place const char *path, int flags, ...) { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (flags & (O_CREAT | O_TRUNC)) { \
            int struck = strikes("create", path, NULL, 0); \
            if (struck == 1) return -1; \
            if (struck == 2) die(); \
        } else if (fails(path)) return -1; \
        return real(given path, flags, mode); \
    }
OPENS(open, , )
OPENS(open64, , )
OPENS(openat, int at COMMA, at COMMA)
OPENS(openat64, int at COMMA, at COMMA)

#define LOOKS_AT_PATH(type, bad, name, parameters, arguments) \
    type name parameters { \
        REAL(name); \
        return fails(path) ? bad : real arguments; \
    }
LOOKS_AT_PATH(int, -1, stat64, (const char *path, struct stat64 *found), (path, found))
LOOKS_AT_PATH(int, -1, lstat64, (const char *path, struct stat64 *found), (path, found))
LOOKS_AT_PATH(DIR *, NULL, opendir, (const char *path), (path))

#define LOOKS_AT_DESCRIPTOR(type, bad, name, parameters, fd, arguments) \
    type name parameters { \
        REAL(name); \
        char buffer[PATH_MAX]; \
        return looks && fails(path_of(fd, buffer)) ? bad : real arguments; \
    }
LOOKS_AT_DESCRIPTOR(int, -1, fstat64, (int fd, struct stat64 *found), fd, (fd, found))
LOOKS_AT_DESCRIPTOR(ssize_t, -1, read, (int fd, void *data, size_t size), fd, (fd, data, size))
LOOKS_AT_DESCRIPTOR(off64_t, -1, lseek64, (int fd, off64_t offset, int from), fd, (fd, offset, from))
LOOKS_AT_DESCRIPTOR(struct dirent64 *, NULL, readdir64, (DIR *directory), dirfd(directory), (directory))

int close(int fd) {
    REAL(close);
    char buffer[PATH_MAX];
    int failed = looks && fails(path_of(fd, buffer));
    int code = real(fd);
    if (failed) errno = error_number;
    return failed ? -1 : code;
}
