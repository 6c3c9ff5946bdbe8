/* The log in front of the SQLite store: what is in it comes back, and nothing else does. */
#include "store/sqlite/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "store/sqlite_place.h"

static struct owner owner_in(const struct place *place)
{
    struct owner owner = {0};
    (void)snprintf(owner.path, sizeof owner.path, "%s", place->path);
    return owner;
}

static struct journal open_journal(const struct place *place)
{
    struct owner owner = owner_in(place);
    struct journal journal;
    struct err err;
    if (journal_open(&journal, &owner, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    return journal;
}

static enum error_code append(struct place *place, struct journal *journal, int64_t number,
                              const char *text, struct err *err)
{
    struct buf body;
    buf_init(&body, &place->arena, 64);
    journal_begin(&body);
    buf_add(&body, str_from(text));
    return journal_append(journal, number, number - 1, &body, err);
}

static void append_ok(struct place *place, struct journal *journal, int64_t number,
                      const char *text)
{
    struct err err;
    if (append(place, journal, number, text, &err) != ERR_OK)
        fail_msg("%s", err.detail);
}

/* Closes the journal as a killed process does, opens it again, and tells what is in it. */
static const char *reopened_after(struct place *place, struct journal *journal, int64_t done)
{
    static char text[512];
    struct owner owner = owner_in(place);
    struct journal_record *records = NULL;
    uint32_t count = 0;
    struct err err;
    size_t len = 0;
    journal_close(journal, &owner, false);
    *journal = open_journal(place);
    if (journal_read(journal, done, &place->arena, &records, &count, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld:%.*s", i > 0 ? " " : "",
                                (long long)records[i].number,
                                (int)(records[i].body.len < 8 ? records[i].body.len : 8),
                                records[i].body.at);
    return text;
}

static const char *reopened(struct place *place, struct journal *journal)
{
    return reopened_after(place, journal, 0);
}

static void end(const struct place *place, struct journal *journal)
{
    struct owner owner = owner_in(place);
    journal_close(journal, &owner, true);
    assert_string_equal(files_in(place), "");
}

static void records_come_back_by_their_numbers(void **state)
{
    struct place *place = *state;
    struct journal journal = open_journal(place);
    append_ok(place, &journal, 1, "one");
    append_ok(place, &journal, 2, "");
    journal_turn(&journal);
    append_ok(place, &journal, 3, "three");
    assert_string_equal(reopened(place, &journal), "1:one 2: 3:three");
    end(place, &journal);
}

static void change_byte(const char *path, long offset, int bits)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ bits, file), EOF);
    assert_int_equal(fclose(file), 0);
}

static void a_record_of_which_a_byte_is_wrong_ends_the_log(void **state)
{
    struct place *place = *state;
    struct journal journal = open_journal(place);
    append_ok(place, &journal, 1, "one");
    append_ok(place, &journal, 2, "two");
    long second = JOURNAL_HEAD_LEN + 3;
    for (long at = 0; at < JOURNAL_HEAD_LEN + 3; at++) {
        change_byte(beside(place, "-ahead0"), second + at, 1);
        assert_string_equal(reopened(place, &journal), "1:one");
        change_byte(beside(place, "-ahead0"), second + at, 1);
    }
    assert_string_equal(reopened(place, &journal), "1:one 2:two");
    end(place, &journal);
}

static void records_of_an_earlier_version_are_told_and_stay(void **state)
{
    struct place *place = *state;
    struct owner owner = owner_in(place);
    struct journal journal = open_journal(place);
    struct journal_record *records = NULL;
    uint32_t count = 0;
    struct err err;
    append_ok(place, &journal, 1, "one");
    journal_close(&journal, &owner, false);
    change_byte(beside(place, "-ahead0"), 7, '2' ^ '1'); /* PawlLog1 */
    struct str before = read_file(place, beside(place, "-ahead0"));
    journal = open_journal(place);
    assert_int_equal(journal_read(&journal, 0, &place->arena, &records, &count, &err),
                     ERR_UNAVAILABLE);
    assert_says(err.detail, "an earlier version");
    journal_close(&journal, &owner, false);
    assert_str_equal(read_file(place, beside(place, "-ahead0")), before);
}

static void a_record_in_the_middle_that_is_wrong_is_told(void **state)
{
    struct place *place = *state;
    struct owner owner = owner_in(place);
    struct journal journal = open_journal(place);
    struct journal_record *records = NULL;
    uint32_t count = 0;
    struct err err;
    append_ok(place, &journal, 1, "one");
    append_ok(place, &journal, 2, "two");
    append_ok(place, &journal, 3, "three");
    change_byte(beside(place, "-ahead0"), JOURNAL_HEAD_LEN + 3 + JOURNAL_HEAD_LEN, 1);
    journal_close(&journal, &owner, false);
    journal = open_journal(place);
    assert_int_equal(journal_read(&journal, 0, &place->arena, &records, &count, &err), ERR_CORRUPT);
    assert_says(err.detail, "behind commit 1");
    /* Where the database has them it does not matter. */
    assert_int_equal(journal_read(&journal, 3, &place->arena, &records, &count, &err), ERR_OK);
    end(place, &journal);
}

static void a_record_that_was_cut_is_left_out_wherever_it_was(void **state)
{
    struct place *place = *state;
    struct journal journal = open_journal(place);
    append_ok(place, &journal, 1, "one");
    append_ok(place, &journal, 2, "two");
    for (long len = 2 * (JOURNAL_HEAD_LEN + 3) - 1; len >= 0; len--) {
        assert_int_equal(truncate(beside(place, "-ahead0"), len), 0);
        assert_string_equal(reopened(place, &journal), len >= JOURNAL_HEAD_LEN + 3 ? "1:one" : "");
    }
    end(place, &journal);
}

static void what_is_left_of_an_earlier_use_of_a_file_is_not_taken(void **state)
{
    struct place *place = *state;
    struct journal journal = open_journal(place);
    for (int64_t i = 1; i <= 4; i++)
        append_ok(place, &journal, i, "same");
    journal_turn(&journal);
    append_ok(place, &journal, 5, "five");
    journal_turn(&journal);
    append_ok(place, &journal, 6, "same"); /* in the place of 1; 2 follows it, whole */
    assert_string_equal(reopened(place, &journal), "5:five 6:same");
    end(place, &journal);
}

static void a_cut_record_at_the_begin_of_a_file_that_is_used_again_is_no_damage(void **state)
{
    struct place *place = *state;
    struct journal journal = open_journal(place);
    for (int64_t i = 1; i <= 4; i++)
        append_ok(place, &journal, i, "same");
    journal_turn(&journal);
    append_ok(place, &journal, 5, "five");
    journal_turn(&journal);
    append_ok(place, &journal, 6, "same");
    change_byte(beside(place, "-ahead0"), JOURNAL_HEAD_LEN, 1); /* 2 to 4 are whole behind it */
    assert_string_equal(reopened_after(place, &journal, 4), "5:five");
    end(place, &journal);
}

static void after_a_restart_records_follow_those_that_were_found(void **state)
{
    struct place *place = *state;
    struct journal journal = open_journal(place);
    append_ok(place, &journal, 1, "one");
    (void)reopened(place, &journal);
    append_ok(place, &journal, 2, "two");
    assert_string_equal(reopened(place, &journal), "1:one 2:two");
    end(place, &journal);
}

static void what_is_erased_cannot_be_found_in_the_files(void **state)
{
    struct place *place = *state;
    struct journal journal = open_journal(place);
    append_ok(place, &journal, 1, "a secret");
    journal_turn(&journal);
    append_ok(place, &journal, 2, "a secret");
    journal_erase(&journal);
    assert_int_equal(read_file(place, beside(place, "-ahead0")).len, 0);
    assert_int_equal(read_file(place, beside(place, "-ahead1")).len, 0);
    append_ok(place, &journal, 3, "three");
    assert_string_equal(reopened(place, &journal), "3:three");
    end(place, &journal);
}

static int fill_disk(struct place *place)
{
    struct rlimit limit = {.rlim_cur = 3 * 1024 * 1024, .rlim_max = RLIM_INFINITY};
    struct journal journal = open_journal(place);
    char *text = arena_alloc(&place->arena, 1024 * 1024);
    struct err err;
    memset(text, 'x', 1024 * 1024 - 1);
    text[1024 * 1024 - 1] = '\0';
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    for (int64_t i = 1; i <= 2; i++)
        if (append(place, &journal, i, text, &err) != ERR_OK)
            return 2;
    if (append(place, &journal, 3, text, &err) != ERR_UNAVAILABLE)
        return 3;
    /* What fits goes where the other did not. */
    if (append(place, &journal, 3, "small", &err) != ERR_OK)
        return 4;
    const char *all = reopened(place, &journal);
    return strstr(all, "3:small") != NULL ? 0 : 5;
}

static void a_record_for_which_there_is_no_room_is_refused_and_leaves_nothing(void **state)
{
    struct place *place = *state;
    pid_t child = fork();
    int status;
    if (child == 0)
        _exit(fill_disk(place));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A device that takes everything and cannot be synced stands in for a disk that fails. */
static _Noreturn void append_without_sync(struct place *place)
{
    const struct rlimit no_core = {0, 0};
    struct journal journal = open_journal(place);
    struct err err;
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)close(STDERR_FILENO);
    int device = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (device < 0 || dup2(device, journal.files[journal.current].descriptor) < 0)
        _exit(2);
    _exit(append(place, &journal, 1, "one", &err) == ERR_OK ? 0 : 1);
}

static void a_record_that_cannot_be_synced_ends_the_process(void **state)
{
    struct place *place = *state;
    pid_t child = fork();
    int status;
    if (child == 0)
        append_without_sync(place);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(records_come_back_by_their_numbers),
        IN_PLACE(a_record_of_which_a_byte_is_wrong_ends_the_log),
        IN_PLACE(a_record_that_was_cut_is_left_out_wherever_it_was),
        IN_PLACE(what_is_left_of_an_earlier_use_of_a_file_is_not_taken),
        IN_PLACE(a_cut_record_at_the_begin_of_a_file_that_is_used_again_is_no_damage),
        IN_PLACE(records_of_an_earlier_version_are_told_and_stay),
        IN_PLACE(a_record_in_the_middle_that_is_wrong_is_told),
        IN_PLACE(after_a_restart_records_follow_those_that_were_found),
        IN_PLACE(what_is_erased_cannot_be_found_in_the_files),
        IN_PLACE(a_record_for_which_there_is_no_room_is_refused_and_leaves_nothing),
        IN_PLACE(a_record_that_cannot_be_synced_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
