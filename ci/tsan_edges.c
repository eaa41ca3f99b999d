// Tells ThreadSanitizer which synchronization the ordinary standard library does out of its sight.
//
// The library is not built for the sanitizer. Its generic and inline functions are compiled into the program and are seen;
// the others are not, and every lock that two threads contended for would look like a race. The linker puts the functions
// here in their place (`--wrap`): each calls the one that it replaces, and announces the edge that its documentation
// promises, on the address that the visible functions of the same object synchronize on. No edge is added that the library
// does not make. `sanitize.sh` defines the mangled names.
//
// Not here: `park` and `unpark`, and how channels sleep. The order of a message and its receipt is in generic functions.

#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *);
void __tsan_release(void *);

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define REAL(name) JOIN(__real_, name)
#define WRAP(name) JOIN(__wrap_, name)

// Mutex and RwLock: a lock that is free is taken, and every lock is given back, by inline functions. Only the wait for one
// that is held is not seen, which ends with an exchange that acquires.
#define ACQUIRES(name) \
    void REAL(name)(void *lock); \
    void WRAP(name)(void *lock) { \
        REAL(name)(lock); \
        __tsan_acquire(lock); \
    }
ACQUIRES(MUTEX_LOCK_CONTENDED)
ACQUIRES(RWLOCK_READ_CONTENDED)
ACQUIRES(RWLOCK_WRITE_CONTENDED)

// Condvar: gives the mutex back, waits, and takes the mutex again.
void REAL(CONDVAR_WAIT)(void *condvar, void *mutex);
void WRAP(CONDVAR_WAIT)(void *condvar, void *mutex) {
    __tsan_release(mutex);
    REAL(CONDVAR_WAIT)(condvar, mutex);
    __tsan_acquire(mutex);
}

bool REAL(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t seconds, uint32_t nanoseconds);
bool WRAP(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t seconds, uint32_t nanoseconds) {
    __tsan_release(mutex);
    bool in_time = REAL(CONDVAR_WAIT_TIMEOUT)(condvar, mutex, seconds, nanoseconds);
    __tsan_acquire(mutex);
    return in_time;
}

// Barrier: all that was done before the last thread arrived happens before any leaves.
bool REAL(BARRIER_WAIT)(void *barrier);
bool WRAP(BARRIER_WAIT)(void *barrier) {
    __tsan_release(barrier);
    bool leader = REAL(BARRIER_WAIT)(barrier);
    __tsan_acquire(barrier);
    return leader;
}

// Once, and OnceLock and LazyLock with it: what the closure did happens before any thread sees it complete, which inline
// functions do by a load that acquires. The release has to be between the closure and the store of the state, so the
// closure is replaced by one that ends with it. A Rust closure is data and a table: drop, size, alignment, `call_once`,
// `call_mut`.
struct closure {
    void *once, *data;
    void (*call_mut)(void *data, void *state);
};

static void call_and_release(void *data, void *state) {
    struct closure *closure = data;
    closure->call_mut(closure->data, state);
    __tsan_release(closure->once);
}

void REAL(ONCE_CALL)(void *once, bool poisoned, void *data, void *const *table, void *caller);
void WRAP(ONCE_CALL)(void *once, bool poisoned, void *data, void *const *table, void *caller) {
    struct closure closure = {once, data, (void (*)(void *, void *))table[4]};
    // The closure is borrowed: only the last is called.
    void *const replaced[] = {0, (void *)sizeof closure, (void *)_Alignof(struct closure), 0, (void *)call_and_release};
    REAL(ONCE_CALL)(once, poisoned, &closure, replaced, caller);
    __tsan_acquire(once);
}

// Scoped threads: what a thread did happens before the scope ends, which loads the count, one of the first words.
void REAL(SCOPE_THREAD_ENDS)(void **scope, bool panicked);
void WRAP(SCOPE_THREAD_ENDS)(void **scope, bool panicked) {
    for (int word = 0; word < 3; word++) {
        __tsan_release(&scope[word]);
    }
    REAL(SCOPE_THREAD_ENDS)(scope, panicked);
}

// Arc: the last one subtracts from the count, and then has a fence that acquires, which ThreadSanitizer does not know. It
// is an acquisition of what the thread subtracted from last, by the rules for fences.
static __thread void *subtracted_from;

int64_t __real___tsan_atomic64_fetch_sub(void *word, int64_t operand, int order);
int64_t __wrap___tsan_atomic64_fetch_sub(void *word, int64_t operand, int order) {
    subtracted_from = word;
    return __real___tsan_atomic64_fetch_sub(word, operand, order);
}

void __real___tsan_atomic_thread_fence(int order);
void __wrap___tsan_atomic_thread_fence(int order) {
    __real___tsan_atomic_thread_fence(order);
    if (subtracted_from) {
        __tsan_acquire(subtracted_from);
    }
}
