/* Memory that runs out, for tests: preloaded, it counts what one library asks the system for in large pieces, and lets
 * the chosen request fail, or that one and all behind it. Smaller ones are always given. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uintptr_t code_start, code_end;
static size_t least_bytes = SIZE_MAX;
static long chosen = -1;
static int lasts, tells;
static atomic_long *count;

static int note_library(struct dl_phdr_info *info, size_t size, void *name) {
    (void)size;
    if (!info->dlpi_name || !strstr(info->dlpi_name, (const char *)name)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        code_start = info->dlpi_addr + part->p_vaddr;
        code_end = code_start + part->p_memsz;
        return 1;
    }
    return 0;
}

/* Of a library whose path has this name in it, requests of so many bytes and more count, from now on. */
int no_memory_arm(const char *library, size_t bytes, long at, int from_then_on, int with_trace) {
    if (!dl_iterate_phdr(note_library, (void *)library)) return 0;
    /* Worker processes, which are forked, count on. */
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == MAP_FAILED) return 0;
    chosen = at;
    lasts = from_then_on;
    tells = with_trace;
    atomic_store(count, 0);
    least_bytes = bytes;
    return 1;
}

long no_memory_count(void) {
    least_bytes = SIZE_MAX;
    return atomic_load(count);
}

static int refused(size_t bytes, const void *caller) {
    uintptr_t from = (uintptr_t)caller;
    if (bytes < least_bytes || from < code_start || from >= code_end) return 0;
    long at = atomic_fetch_add(count, 1);
    if (at != chosen && !(lasts && chosen >= 0 && at > chosen)) return 0;
    if (tells) {
        void *frames[40];
        backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
    }
    errno = ENOMEM;
    return 1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define CALLER __builtin_return_address(0)

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

void *malloc(size_t bytes) { return refused(bytes, CALLER) ? NULL : __libc_malloc(bytes); }

void *calloc(size_t number, size_t bytes) {
    return refused(number * bytes, CALLER) ? NULL : __libc_calloc(number, bytes);
}

void *realloc(void *old, size_t bytes) { return refused(bytes, CALLER) ? NULL : __libc_realloc(old, bytes); }

int posix_memalign(void **found, size_t alignment, size_t bytes) {
    REAL(posix_memalign);
    return refused(bytes, CALLER) ? ENOMEM : real(found, alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    REAL(aligned_alloc);
    return refused(bytes, CALLER) ? NULL : real(alignment, bytes);
}

void *mmap(void *where, size_t bytes, int protection, int flags, int file, off_t offset) {
    REAL(mmap);
    return refused(bytes, CALLER) ? MAP_FAILED : real(where, bytes, protection, flags, file, offset);
}

void *mmap64(void *where, size_t bytes, int protection, int flags, int file, off64_t offset) {
    REAL(mmap64);
    return refused(bytes, CALLER) ? MAP_FAILED : real(where, bytes, protection, flags, file, offset);
}
