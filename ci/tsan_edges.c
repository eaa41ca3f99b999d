// Announces synchronization of the uninstrumented standard library to ThreadSanitizer.
//
// The library is not built for the sanitizer. Its generic and inline functions are compiled into the program and are
// instrumented; the others are not, and every contended lock would look like a race. The linker replaces these
// functions by the ones here (`--wrap`): each calls the original, and announces the edge that its documentation
// guarantees, on the address that the instrumented functions of the same object synchronize on. No edge is added that
// the library does not have. `sanitize.sh` defines the mangled names.
//
// Not included: `park` and `unpark`, and the sleep of channels. The order of a message and its receipt is in generic
// functions.

#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *);
void __tsan_release(void *);

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define REAL(name) JOIN(__real_, name)
#define WRAP(name) JOIN(__wrap_, name)

// Mutex and RwLock: inline functions acquire a free lock and release every lock. Only the wait for a held lock is not
// instrumented, which ends with an acquiring exchange.
#define ACQUIRES(name) \
    void REAL(name)(void *lock); \
    void WRAP(name)(void *lock) { \
        REAL(name)(lock); \
        __tsan_acquire(lock); \
    }
ACQUIRES(MUTEX_LOCK_CONTENDED)
ACQUIRES(RWLOCK_READ_CONTENDED)
ACQUIRES(RWLOCK_WRITE_CONTENDED)

// Condvar: releases the mutex, waits, and acquires the mutex again.
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

// Barrier: everything before the arrival of the last thread happens before any thread leaves.
bool REAL(BARRIER_WAIT)(void *barrier);
bool WRAP(BARRIER_WAIT)(void *barrier) {
    __tsan_release(barrier);
    bool leader = REAL(BARRIER_WAIT)(barrier);
    __tsan_acquire(barrier);
    return leader;
}

// Once, and therefore OnceLock and LazyLock: the closure happens before any thread sees completion, which inline
// functions do by an acquiring load. The release must be between the closure and the store of the state, so the closure
// is replaced by one that ends with it. A Rust closure is data and a table: drop, size, alignment, `call_once`,
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
    // The closure is borrowed: only the last entry is called.
    void *const replaced[] = {0, (void *)sizeof closure, (void *)_Alignof(struct closure), 0, (void *)call_and_release};
    REAL(ONCE_CALL)(once, poisoned, &closure, replaced, caller);
    __tsan_acquire(once);
}

// Scoped threads: a thread's work happens before the scope ends, which loads the count, one of the first words.
void REAL(SCOPE_THREAD_ENDS)(void **scope, bool panicked);
void WRAP(SCOPE_THREAD_ENDS)(void **scope, bool panicked) {
    for (int word = 0; word < 3; word++) {
        __tsan_release(&scope[word]);
    }
    REAL(SCOPE_THREAD_ENDS)(scope, panicked);
}

// Arc: the last owner subtracts from the count, and then has an acquiring fence, which ThreadSanitizer does not
// support. By the rules for fences it acquires from the last subtraction.
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
