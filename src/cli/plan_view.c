#include "cli/plan_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/duration.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/when.h"

enum {
    NAMES_MAX = 3,     /* of other dependencies that are shown */
    PATH_MAX_ENDS = 6, /* steps at each end of a long path */
    LEVELS_MAX = 32,   /* of branches; what is deeper is not moved further to the right */
    NONE = -1,
};

struct node {
    struct pawl_json step;
    char *id;
    char *ended_at; /* "" when it has not */
    int parent;
    int first_child;
    int next_sibling;
    int child_count;
    int critical; /* its place on the critical path, from 1; 0: it is not there */
};

struct tree {
    struct node *nodes;
    int *by_id; /* places of nodes, by their ids */
    int count;
    int first_root;
    int root_count;
};

/* ---- making the tree ---- */

static void tree_free(struct tree *tree)
{
    for (int i = 0; i < tree->count; i++) {
        pawl_free(tree->nodes[i].id);
        pawl_free(tree->nodes[i].ended_at);
    }
    free(tree->nodes);
    free(tree->by_id);
}

struct entry {
    const char *id;
    int at;
};

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->id, ((const struct entry *)b)->id);
}

static bool sort_ids(struct tree *tree)
{
    struct entry *entries = calloc((size_t)tree->count + 1, sizeof *entries);
    tree->by_id = calloc((size_t)tree->count + 1, sizeof *tree->by_id);
    bool good = entries != NULL && tree->by_id != NULL;
    for (int i = 0; good && i < tree->count; i++)
        entries[i] = (struct entry){tree->nodes[i].id, i};
    if (good)
        qsort(entries, (size_t)tree->count, sizeof *entries, by_id);
    for (int i = 0; good && i < tree->count; i++)
        tree->by_id[i] = entries[i].at;
    free(entries);
    return good;
}

/* The step of that name; NONE: unknown. */
static int find(const struct tree *tree, struct pawl_json name)
{
    char *id = pawl_json_text(name);
    int low = 0;
    int high = tree->count;
    while (id != NULL && low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(tree->nodes[tree->by_id[middle]].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    int at = id != NULL && low < tree->count ? tree->by_id[low] : NONE;
    bool found = at != NONE && strcmp(tree->nodes[at].id, id) == 0;
    pawl_free(id);
    return found ? at : NONE;
}

/* Under which of its dependencies a step stands: the last one on the critical path if it is there
 * itself, else the one that ended last. */
static int choose_parent(const struct tree *tree, const struct node *node)
{
    struct pawl_json deps = pawl_json_get(node->step, "deps");
    struct pawl_json dep = {NULL, 0};
    int chosen = NONE;
    while (pawl_json_next(deps, &dep, NULL) != 0) {
        int at = find(tree, dep);
        if (at == NONE)
            continue;
        const struct node *other = &tree->nodes[at];
        const struct node *best = chosen != NONE ? &tree->nodes[chosen] : other;
        bool better = node->critical > 0 && other->critical != best->critical
                          ? other->critical > best->critical
                          : strcmp(other->ended_at, best->ended_at) > 0;
        if (chosen == NONE || better)
            chosen = at;
    }
    return chosen;
}

/* From the last to the first, so that children stand in the order of the plan. */
static void link_nodes(struct tree *tree)
{
    tree->first_root = NONE;
    for (int i = 0; i < tree->count; i++)
        tree->nodes[i].parent = choose_parent(tree, &tree->nodes[i]);
    for (int i = tree->count - 1; i >= 0; i--) {
        struct node *node = &tree->nodes[i];
        int *first =
            node->parent == NONE ? &tree->first_root : &tree->nodes[node->parent].first_child;
        int *count =
            node->parent == NONE ? &tree->root_count : &tree->nodes[node->parent].child_count;
        node->next_sibling = *first;
        *first = i;
        *count += 1;
    }
}

static bool tree_make(struct pawl_json answer, struct tree *ret)
{
    struct pawl_json steps = pawl_json_get(answer, "steps");
    struct pawl_json step = {NULL, 0};
    struct tree tree = {0};
    size_t count = 0;
    while (pawl_json_next(steps, &step, NULL) != 0)
        count++;
    tree.nodes = calloc(count + 1, sizeof *tree.nodes);
    bool good = tree.nodes != NULL;
    step = (struct pawl_json){NULL, 0};
    while (good && pawl_json_next(steps, &step, NULL) != 0) {
        struct node *node = &tree.nodes[tree.count++];
        struct pawl_json ended = pawl_json_get(step, "ended_at");
        *node = (struct node){.step = step, .first_child = NONE};
        node->id = pawl_json_text(pawl_json_get(step, "id"));
        node->ended_at = ended.at != NULL ? pawl_json_text(ended) : pawl_copy("");
        good = node->id != NULL && node->ended_at != NULL;
    }
    good = good && sort_ids(&tree);
    step = (struct pawl_json){NULL, 0};
    int place = 0;
    struct pawl_json critical = pawl_json_get(answer, "critical_path.steps");
    while (good && pawl_json_next(critical, &step, NULL) != 0) {
        int at = find(&tree, step);
        if (at != NONE)
            tree.nodes[at].critical = ++place;
    }
    if (good)
        link_nodes(&tree);
    else
        tree_free(&tree);
    *ret = tree;
    return good;
}

/* ---- rows ---- */

static const struct column columns[] = {
    {.title = "STEP", .gives_way = true},
    {.title = "STATE", .status = true},
    {.title = "TIME"},
    {.title = "KIND", .optional = true, .gives_way = true},
    {.title = "WHERE", .optional = true, .gives_way = true},
    {.title = "NOTE", .gives_way = true},
};

/* A text in the making, of any length. */
struct line {
    char *text;
    size_t len;
    FILE *out;
};

static bool line_begin(struct line *line)
{
    *line = (struct line){0};
    line->out = open_memstream(&line->text, &line->len);
    return line->out != NULL;
}

static void line_cell(struct line *line, struct table *table)
{
    bool good = line->out != NULL && fclose(line->out) == 0;
    table_text(table, good && line->len > 0 ? line->text : NULL);
    free(line->text);
}

static void put_value(FILE *out, struct pawl_json value)
{
    char *text = pawl_json_text(value);
    fputs(text != NULL ? text : "?", out);
    pawl_free(text);
}

/* What it depends on besides the step that it stands below. */
static void put_other_deps(FILE *out, const struct tree *tree, const struct node *node)
{
    struct pawl_json deps = pawl_json_get(node->step, "deps");
    struct pawl_json dep = {NULL, 0};
    int count = 0;
    while (pawl_json_next(deps, &dep, NULL) != 0) {
        if (find(tree, dep) == node->parent)
            continue;
        if (count < NAMES_MAX) {
            fputs(count == 0 ? "also after " : ", ", out);
            put_value(out, dep);
        }
        count++;
    }
    if (count > NAMES_MAX)
        fprintf(out, " and %d more", count - NAMES_MAX);
}

static bool state_is(const struct node *node, const char *state)
{
    return pawl_json_is(pawl_json_get(node->step, "state"), state) != 0;
}

static void put_answer(FILE *out, const struct node *node)
{
    struct pawl_json by = pawl_json_get(node->step, "answered_by");
    fputs("answered ", out);
    put_value(out, pawl_json_get(node->step, "answer"));
    if (by.at != NULL) {
        fputs(" by ", out);
        put_value(out, by);
    }
}

/* What is most worth knowing: what it asks, why it failed, who answered; else what else it is
 * after. */
static void put_note(FILE *out, const struct tree *tree, const struct node *node)
{
    struct pawl_json prompt = pawl_json_get(node->step, "question.prompt");
    struct pawl_json message = pawl_json_get(node->step, "error.message");
    bool answered = pawl_json_get(node->step, "answer").at != NULL;
    if (state_is(node, "needs_user") && !answered && prompt.at != NULL)
        put_value(out, prompt);
    else if (answered)
        put_answer(out, node);
    else if (!state_is(node, "succeeded") && message.at != NULL)
        put_value(out, message);
    else if (pawl_json_true(pawl_json_get(node->step, "held")) != 0)
        fputs("finished, awaiting review", out);
    else
        put_other_deps(out, tree, node);
}

static void put_time(FILE *out, const struct node *node)
{
    struct pawl_json duration = pawl_json_get(node->step, "duration_ms");
    char text[DURATION_LEN_MAX] = "-";
    if (duration.at != NULL)
        duration_write(pawl_json_int(duration, 0), text);
    fprintf(out, "%s%s", text, node->critical > 0 ? " *" : "");
}

/* How a step hangs in the tree. */
struct twig {
    int node;
    int level; /* of the branch that it is on; NONE: the trunk */
    bool branch;
    bool last; /* branch of its level */
};

static void put_twig(FILE *out, const struct twig *twig, const bool *goes_on)
{
    for (int i = 0; i < twig->level; i++)
        fputs(goes_on[i] ? "│  " : "   ", out);
    if (twig->branch)
        fputs(twig->last ? "└─ " : "├─ ", out);
    else if (twig->level != NONE)
        fputs(goes_on[twig->level] ? "│  " : "   ", out);
}

/* Where it runs, or ran last: the resource, or else the worker. */
static struct pawl_json place_of(const struct node *node)
{
    static const char *const names[] = {"resource_id", "worker_id"};
    struct pawl_json lease = pawl_json_get(node->step, "lease");
    struct pawl_json history = pawl_json_get(node->step, "history");
    struct pawl_json place = {NULL, 0};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && place.at == NULL; i++) {
        struct pawl_json moment = {NULL, 0};
        place = pawl_json_get(lease, names[i]);
        while (lease.at == NULL && pawl_json_next(history, &moment, NULL) != 0) {
            struct pawl_json named = pawl_json_get(moment, names[i]);
            place = named.at != NULL ? named : place;
        }
    }
    return place;
}

static void add_row(struct table *table, const struct tree *tree, const struct twig *twig,
                    const bool *goes_on)
{
    const struct node *node = &tree->nodes[twig->node];
    struct line line;
    if (line_begin(&line)) {
        put_twig(line.out, twig, goes_on);
        fputs(!twig->branch && node->parent != NONE ? "↓ " : "", line.out);
        fputs(node->id, line.out);
    }
    line_cell(&line, table);
    table_value(table, pawl_json_get(node->step, "state"));
    if (line_begin(&line))
        put_time(line.out, node);
    line_cell(&line, table);
    table_value(table, pawl_json_get(node->step, "kind"));
    table_value(table, place_of(node));
    if (line_begin(&line))
        put_note(line.out, tree, node);
    line_cell(&line, table);
}

/* Puts the children of a step, or the roots, on the stack, so that the first comes off first. One
 * alone goes on below its parent; several are branches. */
static int push(const struct tree *tree, int first, int count, int level, struct twig *stack,
                int top)
{
    int at = top + count;
    bool branch = count > 1;
    int own = !branch ? level : level + 1 < LEVELS_MAX ? level + 1 : LEVELS_MAX - 1;
    for (int i = first; i != NONE; i = tree->nodes[i].next_sibling)
        stack[--at] = (struct twig){i, own, branch, tree->nodes[i].next_sibling == NONE};
    return top + count;
}

static bool add_rows(struct table *table, const struct tree *tree)
{
    bool goes_on[LEVELS_MAX] = {false};
    struct twig *stack = calloc((size_t)tree->count + 1, sizeof *stack);
    if (stack == NULL)
        return false;
    int top = push(tree, tree->first_root, tree->root_count, NONE, stack, 0);
    while (top > 0) {
        struct twig twig = stack[--top];
        const struct node *node = &tree->nodes[twig.node];
        if (twig.branch)
            goes_on[twig.level] = !twig.last;
        add_row(table, tree, &twig, goes_on);
        top = push(tree, node->first_child, node->child_count, twig.level, stack, top);
    }
    free(stack);
    return true;
}

/* ---- around it ---- */

static void print_head(struct pawl_json answer, const struct tree *tree)
{
    int succeeded = 0;
    int failed = 0;
    for (int i = 0; i < tree->count; i++) {
        succeeded += state_is(&tree->nodes[i], "succeeded");
        failed += state_is(&tree->nodes[i], "failed");
    }
    fputs("The job is ", stdout);
    print_value(pawl_json_get(answer, "status"));
    printf("; plan version %lld, %d of %d step%s succeeded",
           pawl_json_int(pawl_json_get(answer, "plan_version"), 0), succeeded, tree->count,
           tree->count == 1 ? "" : "s");
    if (failed > 0)
        printf(", %d failed", failed);
    fputs("\n\n", stdout);
}

/* A list of names with something between them, its middle left out when it is long. */
static void print_names(struct pawl_json names, const char *between)
{
    struct pawl_json name = {NULL, 0};
    long count = 0;
    long at = 0;
    while (pawl_json_next(names, &name, NULL) != 0)
        count++;
    long left_out = count > 2 * PATH_MAX_ENDS + 1 ? count - 2 * PATH_MAX_ENDS : 0;
    name = (struct pawl_json){NULL, 0};
    for (; pawl_json_next(names, &name, NULL) != 0; at++) {
        bool shown = left_out == 0 || at < PATH_MAX_ENDS || at >= PATH_MAX_ENDS + left_out;
        if (shown) {
            fputs(at > 0 ? between : "", stdout);
            print_value(name);
        } else if (at == PATH_MAX_ENDS) {
            printf("%s… (%ld more)", between, left_out);
        }
    }
}

static void print_path(struct pawl_json path)
{
    char text[DURATION_LEN_MAX];
    long long ms = pawl_json_int(pawl_json_get(path, "duration_ms"), 0);
    duration_write(ms, text);
    if (ms > 0)
        printf("\n* the critical path, %s: ", text);
    else
        fputs("\n* the longest chain: ", stdout);
    print_names(pawl_json_get(path, "steps"), " → ");
    fputc('\n', stdout);
}

enum cli_exit plan_print(const struct verb *verb, struct pawl_json answer)
{
    struct tree tree;
    struct pawl_json path = pawl_json_get(answer, "critical_path");
    if (!tree_make(answer, &tree))
        return cli_no_memory(verb);
    if (tree.count == 0) {
        puts("The job has no plan.");
        tree_free(&tree);
        return CLI_DONE;
    }
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    bool good = add_rows(table, &tree);
    if (good)
        print_head(answer, &tree);
    enum cli_exit code = good ? table_print(verb, table, true) : cli_no_memory(verb);
    if (code == CLI_DONE && path.at != NULL)
        print_path(path);
    table_free(table);
    tree_free(&tree);
    return code;
}

/* ---- two versions ---- */

/* JSON on one line, cut when it is long; "nothing" if absent. */
static void print_short(struct pawl_json value)
{
    enum { WIDTH = 100 };
    if (value.at == NULL) {
        fputs("nothing", stdout);
        return;
    }
    char *text = text_visible_json(value.at, value.len);
    size_t bytes = text != NULL ? text_fitting(text, WIDTH) : 0;
    printf("%.*s%s", (int)bytes, text != NULL ? text : "",
           text == NULL || text[bytes] != '\0' ? "…" : "");
    free(text);
}

static struct pawl_json member(struct pawl_json object, struct pawl_json key)
{
    struct pawl_json item = {NULL, 0};
    struct pawl_json name;
    while (pawl_json_next(object, &item, &name) != 0)
        if (name.len == key.len && memcmp(name.at, key.at, key.len) == 0)
            return item;
    return (struct pawl_json){NULL, 0};
}

static void print_field_change(struct pawl_json key, struct pawl_json from, struct pawl_json to)
{
    fputs("    ", stdout);
    print_value(key);
    fputs(": ", stdout);
    print_short(from);
    fputs(" → ", stdout);
    print_short(to);
    fputc('\n', stdout);
}

/* Every field that is in one of them. */
static void print_fields(struct pawl_json from, struct pawl_json to)
{
    struct pawl_json item = {NULL, 0};
    struct pawl_json key;
    while (pawl_json_next(from, &item, &key) != 0)
        print_field_change(key, item, member(to, key));
    item = (struct pawl_json){NULL, 0};
    while (pawl_json_next(to, &item, &key) != 0)
        if (member(from, key).at == NULL)
            print_field_change(key, (struct pawl_json){NULL, 0}, item);
}

static void print_change(struct pawl_json change)
{
    struct pawl_json type = pawl_json_get(change, "change");
    struct pawl_json to = pawl_json_get(change, "to");
    struct pawl_json deps = pawl_json_get(to, "deps");
    bool added = pawl_json_is(type, "added") != 0;
    bool colours = screen_has_colours();
    const char *sign = added ? "+" : pawl_json_is(type, "removed") != 0 ? "-" : "~";
    const char *colour = added ? "\033[32m" : *sign == '-' ? "\033[31m" : "\033[33m";
    printf("%s%s%s ", colours ? colour : "", sign, colours ? SCREEN_PLAIN : "");
    print_value(pawl_json_get(change, "step"));
    if (added && deps.at != NULL) {
        fputs(" after ", stdout);
        print_names(deps, ", ");
    }
    fputc('\n', stdout);
    if (*sign == '~')
        print_fields(pawl_json_get(change, "from"), to);
}

/* Who made a version, when and why. */
static void print_version(struct pawl_json answer, long long number)
{
    struct pawl_json versions = pawl_json_get(answer, "versions");
    struct pawl_json version = {NULL, 0};
    while (pawl_json_next(versions, &version, NULL) != 0) {
        if (pawl_json_int(pawl_json_get(version, "version"), 0) != number)
            continue;
        struct pawl_json reason = pawl_json_get(version, "reason");
        char relative[WHEN_LEN_MAX] = "";
        long long ms;
        char *at = pawl_json_text(pawl_json_get(version, "at"));
        if (at != NULL && when_parse(at, &ms))
            when_relative(ms, when_now(), relative);
        fputs(", by ", stdout);
        print_value(pawl_json_get(version, "actor"));
        printf(" %s", relative);
        if (reason.at != NULL) {
            fputs(": ", stdout);
            print_value(reason);
        }
        pawl_free(at);
    }
}

void plan_diff_print(struct pawl_json answer)
{
    struct pawl_json change = {NULL, 0};
    struct pawl_json kept = pawl_json_get(answer, "kept");
    struct pawl_json first = {NULL, 0};
    long long to = pawl_json_int(pawl_json_get(answer, "to"), 0);
    long long same = pawl_json_int(pawl_json_get(answer, "same"), 0);
    printf("Version %lld → %lld", pawl_json_int(pawl_json_get(answer, "from"), 0), to);
    print_version(answer, to);
    fputc('\n', stdout);
    struct pawl_json changes = pawl_json_get(answer, "changes");
    while (pawl_json_next(changes, &change, NULL) != 0)
        print_change(change);
    printf("%lld step%s unchanged", same, same == 1 ? "" : "s");
    if (pawl_json_next(kept, &first, NULL) != 0) {
        fputs("; results kept: ", stdout);
        print_names(kept, ", ");
    }
    fputc('\n', stdout);
}
