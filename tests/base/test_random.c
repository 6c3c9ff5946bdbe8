#include "base/random.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

/* Every byte is other than it was in one of a few fills, and none behind them is touched. */
static void all_bytes_are_filled_and_no_more(void **state)
{
    (void)state;
    static const size_t lens[] = {0, 1, 16, 255, 256, 257, 5000};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        uint8_t *bytes = calloc(1, lens[i] + 1);
        uint8_t *seen = calloc(1, lens[i] + 1);
        for (int turn = 0; turn < 16; turn++) {
            random_fill(bytes, lens[i]);
            for (size_t k = 0; k <= lens[i]; k++)
                seen[k] |= bytes[k];
        }
        for (size_t k = 0; k < lens[i]; k++)
            assert_int_not_equal(seen[k], 0);
        assert_int_equal(seen[lens[i]], 0);
        free(bytes);
        free(seen);
    }
}

static void two_fills_are_not_the_same(void **state)
{
    (void)state;
    uint8_t a[16];
    uint8_t b[16];
    random_fill(a, sizeof a);
    random_fill(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* A kernel without getrandom. False when it cannot be had. */
static bool take_random_away(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof steps / sizeof steps[0], .filter = steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void a_system_without_any_ends_the_process(void **state)
{
    (void)state;
    enum { CANNOT_TRY = 77 };
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        uint8_t bytes[16];
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        (void)signal(SIGABRT, SIG_DFL);
        (void)alarm(10);
        if (!take_random_away())
            _exit(CANNOT_TRY);
        random_fill(bytes, sizeof bytes);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_TRY)
        skip();
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bytes_are_filled_and_no_more),
        cmocka_unit_test(two_fills_are_not_the_same),
        cmocka_unit_test(a_system_without_any_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
