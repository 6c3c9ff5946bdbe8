/* pawl-sim: runs seeds, says what went wrong, and makes what went wrong small. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

enum { EXIT_BROKEN = 1, EXIT_USAGE = 2 };

struct settings {
    struct scenario scenario;
    uint64_t count;
    uint32_t twice; /* percent of seeds that are run twice */
    bool trace;
    bool large; /* a failure is shown as it is, and not made smaller */
    struct sim_command *skipped;
};

static const char usage[] =
    "usage: pawl-sim [--store memory|sqlite] [--seed N] [--count N] [--commands N]\n"
    "                [--faults off|NAME,...] [--twice PERCENT] [--actors BITS]\n"
    "                [--skip ACTOR:NTH,...] [--trace] [--large]\n"
    "\n"
    "Runs simulated worlds, one for each seed from --seed on, and checks each. The first that "
    "fails\n"
    "is made smaller, shown as a trace and ends the run with exit code 1.\n"
    "  --store    sqlite: one server on a simulated disk, whose power can be cut (memory)\n"
    "  --twice    run so many percent of the seeds twice: the traces must be equal (5)\n"
    "  --trace    show every trace as it comes\n"
    "  --large    show a failure as it is\n"
    "  --actors, --skip, --commands: as a failure that was made smaller says\n"
    "  --faults   all when nothing is said:\n"
#define SIM_FAULT(symbol, name, text) "             " name ": " text "\n"
#include "fault.def"
#undef SIM_FAULT
    ;

/* ---- options ---- */

/* Says what is wrong with a word of the command line, and ends. */
static _Noreturn void refuse(const char *before, const char *word, const char *after)
{
    (void)fprintf(stderr, "pawl-sim: %s\"%s\"%s; --help lists the options\n", before, word, after);
    exit(EXIT_USAGE);
}

static uint64_t read_number(const char *text, uint64_t min, uint64_t max)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0')
        refuse("", text, " is not a number");
    if (errno == ERANGE || number > max)
        refuse("", text, " is too large here");
    if (number < min)
        refuse("", text, " is too small here");
    return number;
}

static uint32_t read_faults(char *text)
{
    uint32_t faults = 0;
    if (strcmp(text, "off") == 0)
        return 0;
    for (char *rest = NULL, *name = strtok_r(text, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        int fault = 0;
        while (fault < FAULT_COUNT && strcmp(name, sim_fault_name((enum sim_fault)fault)) != 0)
            fault++;
        if (fault == FAULT_COUNT)
            refuse("there is no fault ", name, "");
        faults |= UINT32_C(1) << fault;
    }
    return faults;
}

static enum sim_store read_store(const char *text)
{
    if (strcmp(text, "memory") == 0)
        return SIM_MEMORY;
    if (strcmp(text, "sqlite") == 0)
        return SIM_SQLITE;
    refuse("there is no store ", text, "");
}

static void read_skipped(struct settings *settings, char *text)
{
    uint32_t count = 0;
    free(settings->skipped);
    settings->skipped = calloc(strlen(text) + 1, sizeof *settings->skipped);
    if (settings->skipped == NULL)
        abort();
    for (char *rest = NULL, *pair = strtok_r(text, ",", &rest); pair != NULL;
         pair = strtok_r(NULL, ",", &rest)) {
        char *nth = strchr(pair, ':');
        if (nth == NULL)
            refuse("", pair, " is not ACTOR:NTH");
        *nth++ = '\0';
        settings->skipped[count++] = (struct sim_command){
            (uint16_t)read_number(pair, 0, UINT16_MAX), (uint16_t)read_number(nth, 0, UINT16_MAX)};
    }
    settings->scenario.skipped = settings->skipped;
    settings->scenario.skipped_count = count;
}

static void read_options(int argc, char **argv, struct settings *ret)
{
    static const struct option options[] = {
        {"store", required_argument, NULL, 'o'},  {"seed", required_argument, NULL, 's'},
        {"count", required_argument, NULL, 'n'},  {"commands", required_argument, NULL, 'c'},
        {"faults", required_argument, NULL, 'f'}, {"twice", required_argument, NULL, '2'},
        {"actors", required_argument, NULL, 'a'}, {"skip", required_argument, NULL, 'k'},
        {"trace", no_argument, NULL, 't'},        {"large", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 'o':
            ret->scenario.store = read_store(optarg);
            break;
        case 's':
            ret->scenario.seed = read_number(optarg, 0, UINT64_MAX);
            break;
        case 'n':
            ret->count = read_number(optarg, 1, UINT64_MAX);
            break;
        case 'c':
            ret->scenario.commands = (uint32_t)read_number(optarg, 1, UINT32_MAX);
            break;
        case 'f':
            ret->scenario.faults = read_faults(optarg);
            break;
        case '2':
            ret->twice = (uint32_t)read_number(optarg, 0, 100);
            break;
        case 'a':
            ret->scenario.actors = (uint32_t)read_number(optarg, 0, UINT32_MAX);
            break;
        case 'k':
            read_skipped(ret, optarg);
            break;
        case 't':
            ret->trace = true;
            break;
        case 'l':
            ret->large = true;
            break;
        default:
            (void)fputs(usage, option == 'h' ? stdout : stderr);
            exit(option == 'h' ? EXIT_SUCCESS : EXIT_USAGE);
        }
    if (optind < argc)
        refuse("nothing is known of ", argv[optind], "");
}

/* ---- what came of it ---- */

/* The scenario as options. */
static void show_scenario(const struct scenario *scenario)
{
    (void)printf("pawl-sim --store %s --seed %llu --count 1 --commands %u --actors %u --faults ",
                 scenario->store == SIM_SQLITE ? "sqlite" : "memory",
                 (unsigned long long)scenario->seed, scenario->commands, scenario->actors);
    bool first = true;
    for (int fault = 0; fault < FAULT_COUNT; fault++)
        if ((scenario->faults & UINT32_C(1) << fault) != 0) {
            (void)printf("%s%s", first ? "" : ",", sim_fault_name((enum sim_fault)fault));
            first = false;
        }
    (void)printf("%s", first ? "off" : "");
    for (uint32_t i = 0; i < scenario->skipped_count; i++)
        (void)printf("%s%u:%u", i == 0 ? " --skip " : ",", scenario->skipped[i].actor,
                     scenario->skipped[i].nth);
    (void)printf("\n");
}

/* Shows a trace as it comes, from a child: the world may end with an assertion. */
static void show_trace(const struct scenario *scenario)
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct sim_counts counts = {0};
        struct sim_result result;
        sim_run(scenario, stdout, &counts, &result);
        _exit(EXIT_SUCCESS);
    }
    if (child > 0)
        (void)waitpid(child, NULL, 0);
}

/* Shows a failing scenario made small, or as it is; `rule` NULL: the process died. */
static void show_failure(const struct settings *settings, const struct scenario *scenario,
                         const char *rule)
{
    struct scenario small = settings->large ? *scenario : sim_minimise(scenario, rule);
    (void)printf("%s:\n", settings->large ? "As it is"
                          : rule == NULL  ? "Made smaller"
                                          : "Made as small as it gets");
    show_scenario(&small);
    show_trace(&small);
    if (small.skipped != scenario->skipped)
        free(small.skipped);
}

static void show_counts(const struct sim_counts *counts, double seconds)
{
    (void)printf("%llu seeds in %.1f s, %.0f a second: none is broken\n",
                 (unsigned long long)counts->runs, seconds, (double)counts->runs / seconds);
    (void)printf("%llu calls (%llu ok, %llu refused, %llu unknown), %llu jobs, %llu events, %llu "
                 "deleted, %.0f hours\n",
                 (unsigned long long)counts->calls, (unsigned long long)counts->ok,
                 (unsigned long long)counts->refused, (unsigned long long)counts->unknown,
                 (unsigned long long)counts->jobs, (unsigned long long)counts->events,
                 (unsigned long long)counts->purged, (double)counts->virtual_ms / 3600e3);
    for (int fault = 0; fault < FAULT_COUNT; fault++)
        (void)printf("%s%s %llu", fault == 0 ? "faults: " : ", ",
                     sim_fault_name((enum sim_fault)fault),
                     (unsigned long long)counts->faults[fault]);
    (void)printf("\n");
}

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Runs one seed; false: it is broken. */
static bool run_seed(const struct settings *settings, const struct scenario *scenario,
                     struct sim_counts *counts)
{
    struct sim_result result;
    bool good = true;
    sim_run(scenario, settings->trace ? stdout : NULL, counts, &result);
    if (result.failed) {
        (void)printf("seed %llu is broken: %s: %s\n", (unsigned long long)scenario->seed,
                     result.rule, result.detail);
        show_failure(settings, scenario, result.rule);
        good = false;
    } else if (scenario->seed % 100 < settings->twice) {
        struct sim_counts ignored = {0};
        struct sim_result again;
        sim_run(scenario, NULL, &ignored, &again);
        good = memcmp(result.hash, again.hash, HASH_LEN) == 0;
        if (!good)
            (void)printf("seed %llu has two traces\n", (unsigned long long)scenario->seed);
        sim_result_release(&again);
    }
    sim_result_release(&result);
    return good;
}

/* Runs all seeds; `at` is told which one it is. */
static bool run_seeds(const struct settings *settings, volatile uint64_t *at)
{
    struct sim_counts counts = {0};
    double start = seconds_now();
    for (uint64_t i = 0; i < settings->count; i++) {
        struct scenario scenario = settings->scenario;
        scenario.seed += i;
        *at = scenario.seed;
        if (!run_seed(settings, &scenario, &counts))
            return false;
    }
    show_counts(&counts, seconds_now() - start);
    return true;
}

/* Whether it is the program's own doing, and not somebody who ended it. */
static bool is_crash(int signal)
{
    return signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE ||
           signal == SIGILL;
}

/* Runs all seeds in a child, so that a failed assertion leaves somebody to look into it. */
static int run_in_child(const struct settings *settings)
{
    volatile uint64_t *at =
        mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    if (at == MAP_FAILED)
        return EXIT_BROKEN;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool good = run_seeds(settings, at);
        (void)fflush(NULL);
        _exit(good ? EXIT_SUCCESS : EXIT_BROKEN);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return EXIT_BROKEN;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    struct scenario scenario = settings->scenario;
    scenario.seed = *at;
    (void)printf("seed %llu is broken: the process was ended by signal %d\n",
                 (unsigned long long)scenario.seed, WTERMSIG(status));
    if (is_crash(WTERMSIG(status)))
        show_failure(settings, &scenario, NULL);
    return EXIT_BROKEN;
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .scenario = {.seed = 1,
                     .commands = COMMANDS_DEFAULT,
                     .faults = FAULTS_ALL,
                     .actors = ACTORS_ALL},
        .count = 1000,
        .twice = 5,
    };
    read_options(argc, argv, &settings);
    int code = run_in_child(&settings);
    free(settings.skipped);
    return code;
}
