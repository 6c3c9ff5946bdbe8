#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

enum { SECTOR = 512, NAME_BYTES = 64, FILES_MAX = 64, OPEN_MAX = 256, MAPS_MAX = 64 };

struct image {
    uint8_t *at;
    size_t len;
    size_t cap;
};

/* Something that was done and not synced: a write, or a new size. */
struct piece {
    uint64_t order;
    bool resizes; /* to `at` */
    size_t at;
    size_t len;
    uint8_t *bytes;
    struct piece *next;
};

struct node {
    ino_t number;
    uint32_t uses; /* names, in both directories and in what is between, and descriptors */
    struct image now;
    struct image safe;
    struct piece *first;
    struct piece *last;
    struct timespec noted;
    int locked_by; /* descriptor; 0: none */
};

struct name {
    char text[NAME_BYTES]; /* "": this place is free */
    struct node *node;
};

/* A name that was made, or taken away, and not synced. */
struct naming {
    uint64_t order;
    char gone[NAME_BYTES]; /* "": none */
    char made[NAME_BYTES];
    struct node *node;
    struct naming *next;
};

struct opened {
    struct node *node; /* NULL: the directory */
    bool used;
    char path[NAME_BYTES];
};

struct disk {
    struct name now[FILES_MAX];
    struct name safe[FILES_MAX];
    struct naming *first;
    struct naming *last;
    struct opened opened[OPEN_MAX];
    uint64_t calls;
    uint64_t order;
    disk_watcher *watcher;
    void *watcher_arg;
    enum disk_lie lie;
};

/* The calls of the C library have no argument to keep these in. */
static struct disk *disk;
static bool busy;
static ino_t last_number;
static struct map {
    void *at;
} maps[MAPS_MAX];

/* ---- names of things ---- */

const char *disk_verb_name(enum disk_verb verb)
{
    static const char *const names[] = {
#define DISK_VERB(symbol, name, changes) name,
#include "disk_verb.def"
#undef DISK_VERB
    };
    return names[verb];
}

bool disk_verb_changes(enum disk_verb verb)
{
    static const bool changing[] = {
#define DISK_VERB(symbol, name, changes) changes,
#include "disk_verb.def"
#undef DISK_VERB
    };
    return changing[verb];
}

const char *disk_lie_text(enum disk_lie lie)
{
    static const char *const texts[] = {
        "nothing",
#define DISK_LIE(symbol, text) text,
#include "disk_lie.def"
#undef DISK_LIE
    };
    return texts[lie];
}

enum disk_lie disk_lie_find(const char *name)
{
    static const char *const names[] = {
        "",
#define DISK_LIE(symbol, text) #symbol,
#include "disk_lie.def"
#undef DISK_LIE
    };
    for (int lie = DISK_HONEST; lie < DISK_LIE_COUNT; lie++)
        if (strcmp(names[lie], name != NULL ? name : "") == 0)
            return (enum disk_lie)lie;
    (void)fprintf(stderr, "there is no lie \"%s\": see disk_lie.def\n", name);
    exit(EXIT_FAILURE);
}

/* ---- images ---- */

static void *need(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static void image_resize(struct image *image, size_t len)
{
    if (len > image->cap) {
        image->cap = len + len / 2 + SECTOR;
        image->at = need(realloc(image->at, image->cap));
    }
    if (len > image->len)
        memset(image->at + image->len, 0, len - image->len);
    image->len = len;
}

static void image_put(struct image *image, size_t at, const uint8_t *bytes, size_t len)
{
    if (at + len > image->len)
        image_resize(image, at + len);
    if (len > 0)
        memcpy(image->at + at, bytes, len);
}

static struct image image_copy(const struct image *from)
{
    struct image copy = {0};
    image_put(&copy, 0, from->at, from->len);
    return copy;
}

/* ---- nodes ---- */

static void forget_pieces(struct node *node)
{
    while (node->first != NULL) {
        struct piece *piece = node->first;
        node->first = piece->next;
        free(piece->bytes);
        free(piece);
    }
    node->last = NULL;
}

static struct node *node_new(void)
{
    struct node *node = need(calloc(1, sizeof *node));
    node->number = ++last_number;
    return node;
}

static void let_go(struct node *node)
{
    if (node == NULL || --node->uses > 0)
        return;
    forget_pieces(node);
    free(node->now.at);
    free(node->safe.at);
    free(node);
}

static void add_piece(struct node *node, struct piece piece)
{
    struct piece *added = need(malloc(sizeof *added));
    *added = piece;
    added->order = ++disk->order;
    added->next = NULL;
    if (node->last == NULL)
        node->first = added;
    else
        node->last->next = added;
    node->last = added;
}

static void apply_piece(struct image *image, const struct piece *piece)
{
    if (piece->resizes)
        image_resize(image, piece->at);
    else
        image_put(image, piece->at, piece->bytes, piece->len);
}

static void make_safe(struct node *node)
{
    for (const struct piece *piece = node->first; piece != NULL; piece = piece->next)
        apply_piece(&node->safe, piece);
    forget_pieces(node);
}

/* ---- the directory ---- */

static struct name *find(struct name *names, const char *text)
{
    for (size_t i = 0; i < FILES_MAX; i++)
        if (strcmp(names[i].text, text) == 0)
            return &names[i];
    return NULL;
}

/* Has a name lead to a node, or to nothing. */
static void set_name(struct name *names, const char *text, struct node *node)
{
    struct name *name = find(names, text);
    if (name == NULL)
        name = need(find(names, ""));
    if (node != NULL)
        node->uses++;
    let_go(name->node);
    (void)snprintf(name->text, sizeof name->text, "%s", node != NULL ? text : "");
    name->node = node;
}

static void apply_naming(struct name *names, const struct naming *naming)
{
    if (naming->gone[0] != '\0')
        set_name(names, naming->gone, NULL);
    if (naming->made[0] != '\0')
        set_name(names, naming->made, naming->node);
}

/* Does it now; it is safe when the directory was synced. */
static void rename_now(const char *gone, const char *made, struct node *node)
{
    struct naming *naming = need(calloc(1, sizeof *naming));
    naming->order = ++disk->order;
    (void)snprintf(naming->gone, sizeof naming->gone, "%s", gone);
    (void)snprintf(naming->made, sizeof naming->made, "%s", made);
    naming->node = node;
    if (node != NULL)
        node->uses++;
    if (disk->last == NULL)
        disk->first = naming;
    else
        disk->last->next = naming;
    disk->last = naming;
    apply_naming(disk->now, naming);
}

static void forget_namings(struct disk *of)
{
    while (of->first != NULL) {
        struct naming *naming = of->first;
        of->first = naming->next;
        let_go(naming->node);
        free(naming);
    }
    of->last = NULL;
}

static void sync_directory(void)
{
    for (const struct naming *naming = disk->first; naming != NULL; naming = naming->next)
        apply_naming(disk->safe, naming);
    forget_namings(disk);
}

/* ---- disks ---- */

struct disk *disk_new(void)
{
    return need(calloc(1, sizeof(struct disk)));
}

static struct node *copy_node(const struct node *from)
{
    struct node *copy = node_new();
    copy->now = image_copy(&from->now);
    copy->safe = image_copy(&from->safe);
    copy->noted = from->noted;
    for (const struct piece *piece = from->first; piece != NULL; piece = piece->next) {
        struct piece *added = need(malloc(sizeof *added));
        *added = *piece;
        added->next = NULL;
        if (piece->bytes != NULL) {
            added->bytes = need(malloc(piece->len));
            memcpy(added->bytes, piece->bytes, piece->len);
        }
        if (copy->last == NULL)
            copy->first = added;
        else
            copy->last->next = added;
        copy->last = added;
    }
    return copy;
}

/* The copy of a node that a copy of the disk has, made when it is met for the first time. */
struct copied {
    const struct node *from[3 * FILES_MAX];
    struct node *to[3 * FILES_MAX];
    size_t count;
};

static struct node *copied(struct copied *known, const struct node *node)
{
    for (size_t i = 0; i < known->count; i++)
        if (known->from[i] == node)
            return known->to[i];
    known->from[known->count] = node;
    known->to[known->count] = node == NULL ? NULL : copy_node(node);
    return known->to[known->count++];
}

struct disk *disk_copy(const struct disk *from)
{
    struct disk *copy = disk_new();
    struct copied known = {.count = 0};
    copy->order = from->order;
    copy->lie = from->lie;
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (from->now[i].node != NULL)
            set_name(copy->now, from->now[i].text, copied(&known, from->now[i].node));
        if (from->safe[i].node != NULL)
            set_name(copy->safe, from->safe[i].text, copied(&known, from->safe[i].node));
    }
    for (const struct naming *naming = from->first; naming != NULL; naming = naming->next) {
        struct naming *added = need(malloc(sizeof *added));
        *added = *naming;
        added->next = NULL;
        if (naming->node != NULL) {
            added->node = copied(&known, naming->node);
            added->node->uses++;
        }
        if (copy->last == NULL)
            copy->first = added;
        else
            copy->last->next = added;
        copy->last = added;
    }
    return copy;
}

void disk_free(struct disk *freed)
{
    if (freed == NULL)
        return;
    forget_namings(freed);
    for (size_t i = 0; i < FILES_MAX; i++) {
        let_go(freed->now[i].node);
        let_go(freed->safe[i].node);
    }
    for (size_t i = 0; i < OPEN_MAX; i++)
        if (freed->opened[i].used)
            let_go(freed->opened[i].node);
    if (disk == freed)
        disk = NULL;
    free(freed);
}

void disk_use(struct disk *used)
{
    disk = used;
}

void disk_watch(struct disk *of, disk_watcher *watcher, void *arg)
{
    of->watcher = watcher;
    of->watcher_arg = arg;
}

void disk_break(struct disk *of, enum disk_lie lie)
{
    of->lie = lie;
}

bool disk_is_busy(void)
{
    return busy;
}

/* ---- power cuts ---- */

/* What is left of what was not synced. */
struct damage {
    uint64_t until;   /* all up to here, and a part of this one */
    bool in_order;    /* else any */
    uint32_t kept;    /* per mille of sectors */
    uint32_t torn;    /* of those */
    uint32_t rubbish; /* of those that a file had grown by, and that are not there */
    struct rng *rng;
};

static struct damage damage_of(uint32_t style, uint64_t last, struct rng *rng)
{
    static const uint32_t kept[] = {500, 100, 900};
    struct damage damage = {.rng = rng};
    if (style == 0)
        return damage;
    damage.kept = style == 1 ? 1000 : kept[style % 3];
    damage.in_order = style >= 2 && style % 4 == 2;
    damage.until = rng_below(rng, last + 1);
    damage.torn = style > 1 && style % 2 == 1 ? 300 : 0;
    damage.rubbish = style > 5 ? 300 : 0;
    return damage;
}

/* A part of a piece within one sector. */
static void cut_sector(struct node *node, const struct piece *piece, size_t from, size_t len,
                       struct damage *damage)
{
    const uint8_t *bytes = piece->bytes + from;
    size_t at = piece->at + from;
    if (rng_chance(damage->rng, damage->kept)) {
        size_t part = rng_chance(damage->rng, damage->torn) ? rng_below(damage->rng, len + 1) : len;
        bool end = part < len && rng_chance(damage->rng, 300);
        image_put(&node->safe, end ? at + len - part : at, end ? bytes + len - part : bytes, part);
        return;
    }
    /* Blocks that are new to a file may have anything in them, but anyone who writes a part of one
     * writes zeros around it. */
    if (at < node->safe.len || damage->rubbish == 0)
        return;
    uint8_t rubbish[SECTOR] = {0};
    if (len == SECTOR && rng_chance(damage->rng, damage->rubbish))
        for (size_t i = 0; i < len; i++)
            rubbish[i] = (uint8_t)rng_next(damage->rng);
    else if (rng_chance(damage->rng, 500))
        return;
    image_put(&node->safe, at, rubbish, len);
}

static void cut_piece(struct node *node, struct piece *piece, struct damage *damage)
{
    if (damage->in_order && piece->order < damage->until) {
        apply_piece(&node->safe, piece);
    } else if (damage->in_order) {
        if (piece->order == damage->until && !piece->resizes)
            image_put(&node->safe, piece->at, piece->bytes, rng_below(damage->rng, piece->len + 1));
    } else if (piece->resizes) {
        if (rng_chance(damage->rng, damage->kept))
            image_resize(&node->safe, piece->at);
    } else {
        for (size_t done = 0; done < piece->len;) {
            size_t len = SECTOR - (piece->at + done) % SECTOR;
            len = len < piece->len - done ? len : piece->len - done;
            cut_sector(node, piece, done, len, damage);
            done += len;
        }
    }
}

static void cut_node(struct node *node, struct damage *damage)
{
    for (struct piece *piece = node->first; piece != NULL; piece = piece->next)
        cut_piece(node, piece, damage);
    forget_pieces(node);
    image_resize(&node->now, 0);
    image_put(&node->now, 0, node->safe.at, node->safe.len);
    if (!rng_chance(damage->rng, 500))
        node->noted = (struct timespec){0};
}

void disk_cut(struct disk *of, struct rng *rng, uint32_t style)
{
    struct damage damage = damage_of(style, of->order, rng);
    for (struct naming *naming = of->first; naming != NULL; naming = naming->next)
        if (damage.in_order ? naming->order <= damage.until : rng_chance(rng, damage.kept))
            apply_naming(of->safe, naming);
    forget_namings(of);
    for (size_t i = 0; i < FILES_MAX; i++)
        if (of->now[i].node != NULL)
            set_name(of->now, of->now[i].text, NULL);
    for (size_t i = 0; i < FILES_MAX; i++)
        if (of->safe[i].node != NULL) {
            cut_node(of->safe[i].node, &damage);
            set_name(of->now, of->safe[i].text, of->safe[i].node);
        }
}

/* ---- calls ---- */

static bool ends_with(const char *path, const char *end)
{
    size_t len = strlen(path);
    size_t end_len = strlen(end);
    return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

static bool is_log(const char *path)
{
    return ends_with(path, "-wal");
}

/* The name in the directory; "" for the directory itself. */
static const char *name_in(const char *path)
{
    path += strlen(DISK_ROOT);
    return *path == '/' ? path + 1 : path;
}

/* What is to become of a call. */
static int verdict(enum disk_verb verb, const char *path)
{
    struct disk_call call = {verb, path, ++disk->calls};
    if (disk->watcher == NULL)
        return DISK_GO;
    return disk->watcher(disk->watcher_arg, &call);
}

/* The same for those that cannot be done by halves: whether it goes on, else errno is set. */
static bool goes_on(enum disk_verb verb, const char *path)
{
    int number = verdict(verb, path);
    if (number > 0)
        errno = number;
    return number <= 0;
}

bool disk_has_path(const char *path)
{
    size_t len = strlen(DISK_ROOT);
    return disk != NULL && strncmp(path, DISK_ROOT, len) == 0 &&
           (path[len] == '/' || path[len] == '\0');
}

bool disk_has_descriptor(int descriptor)
{
    return disk != NULL && descriptor >= DISK_DESCRIPTORS;
}

static struct opened *opened_as(int descriptor)
{
    int at = descriptor - DISK_DESCRIPTORS;
    if (at < 0 || at >= OPEN_MAX || !disk->opened[at].used) {
        errno = EBADF;
        return NULL;
    }
    return &disk->opened[at];
}

static int open_node(struct node *node, const char *path)
{
    for (int i = 0; i < OPEN_MAX; i++) {
        struct opened *opened = &disk->opened[i];
        if (opened->used)
            continue;
        *opened = (struct opened){.node = node, .used = true};
        (void)snprintf(opened->path, sizeof opened->path, "%s", name_in(path));
        if (node != NULL)
            node->uses++;
        return DISK_DESCRIPTORS + i;
    }
    errno = EMFILE;
    return -1;
}

int disk_open(const char *path, int flags)
{
    const char *text = name_in(path);
    if (!goes_on(DISK_OPEN, path))
        return -1;
    if (*text == '\0')
        return open_node(NULL, path);
    const struct name *name = find(disk->now, text);
    if (name == NULL && (flags & O_CREAT) == 0) {
        errno = ENOENT;
        return -1;
    }
    if (name != NULL && (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) {
        errno = EEXIST;
        return -1;
    }
    busy = true;
    struct node *node = name != NULL ? name->node : node_new();
    if (name == NULL)
        rename_now("", text, node);
    busy = false;
    return open_node(node, path);
}

int disk_close(int descriptor)
{
    struct opened *opened = opened_as(descriptor);
    if (opened == NULL)
        return -1;
    if (opened->node != NULL && opened->node->locked_by == descriptor)
        opened->node->locked_by = 0;
    let_go(opened->node);
    opened->used = false;
    return 0;
}

ssize_t disk_read(int descriptor, void *ret, size_t len, size_t at)
{
    const struct opened *opened = opened_as(descriptor);
    if (opened == NULL)
        return -1;
    int number = verdict(DISK_READ, opened->path);
    if (number > 0) {
        errno = number;
        return -1;
    }
    const struct image *image = &opened->node->now;
    size_t left = at < image->len ? image->len - at : 0;
    len = len < left ? len : left;
    if (number == DISK_SHORT && len > 1)
        len /= 2;
    if (len > 0)
        memcpy(ret, image->at + at, len);
    return (ssize_t)len;
}

ssize_t disk_write(int descriptor, const void *bytes, size_t len, size_t at)
{
    const struct opened *opened = opened_as(descriptor);
    if (opened == NULL)
        return -1;
    size_t asked = len;
    int number = verdict(DISK_WRITE, opened->path);
    if (number > 0 && disk->lie == DISK_LIE_FULL_IGNORED && number == ENOSPC)
        return (ssize_t)asked;
    if (number > 0) {
        errno = number;
        return -1;
    }
    if (number == DISK_SHORT && len > 1)
        len /= 2;
    busy = true;
    struct node *node = opened->node;
    struct piece piece = {.at = at, .len = len, .bytes = need(malloc(len + 1))};
    memcpy(piece.bytes, bytes, len);
    add_piece(node, piece);
    apply_piece(&node->now, node->last);
    busy = false;
    return (ssize_t)(disk->lie == DISK_LIE_SHORT_WRITE_IGNORED ? asked : len);
}

int disk_truncate(int descriptor, size_t size)
{
    const struct opened *opened = opened_as(descriptor);
    if (opened == NULL || !goes_on(DISK_TRUNCATE, opened->path))
        return -1;
    busy = true;
    add_piece(opened->node, (struct piece){.resizes = true, .at = size});
    apply_piece(&opened->node->now, opened->node->last);
    busy = false;
    return 0;
}

/* Whether a sync is one that is left out. */
static bool is_skipped(const struct opened *opened)
{
    switch (disk->lie) {
    case DISK_LIE_WAL_NOT_SYNCED:
        return is_log(opened->path);
    case DISK_LIE_DATABASE_NOT_SYNCED:
        return ends_with(opened->path, ".db");
    case DISK_LIE_DIRECTORY_NOT_SYNCED:
        return opened->node == NULL;
    default:
        return false;
    }
}

/* All but the last write. */
static void make_safe_late(struct node *node)
{
    while (node->first != node->last) {
        struct piece *piece = node->first;
        apply_piece(&node->safe, piece);
        node->first = piece->next;
        free(piece->bytes);
        free(piece);
    }
}

int disk_sync(int descriptor)
{
    const struct opened *opened = opened_as(descriptor);
    if (opened == NULL)
        return -1;
    int number = verdict(DISK_SYNC, opened->path);
    if (is_skipped(opened))
        return 0;
    if (number > 0 && opened->node != NULL)
        forget_pieces(opened->node); /* which nobody will write any more */
    if (number > 0 && disk->lie != DISK_LIE_SYNC_FAILURE_IGNORED) {
        errno = number;
        return -1;
    }
    busy = true;
    if (opened->node == NULL)
        sync_directory();
    else if (disk->lie == DISK_LIE_WAL_SYNCED_LATE && is_log(opened->path))
        make_safe_late(opened->node);
    else
        make_safe(opened->node);
    busy = false;
    return 0;
}

static void fill_stat(const struct node *node, struct stat *ret)
{
    enum { DEVICE = 0x70, BLOCK = 4096 };
    *ret = (struct stat){
        .st_dev = DEVICE,
        .st_ino = node != NULL ? node->number : 0,
        .st_mode = node != NULL ? S_IFREG | 0600 : S_IFDIR | 0700,
        .st_nlink = 1,
        .st_size = node != NULL ? (off_t)node->now.len : 0,
        .st_blksize = BLOCK,
    };
    if (node != NULL)
        ret->st_mtim = node->noted;
}

int disk_stat(const char *path, struct stat *ret)
{
    if (!goes_on(DISK_LOOK, path))
        return -1;
    const struct name *name = find(disk->now, name_in(path));
    if (name == NULL && *name_in(path) != '\0') {
        errno = ENOENT;
        return -1;
    }
    fill_stat(*name_in(path) != '\0' ? name->node : NULL, ret);
    return 0;
}

int disk_stat_open(int descriptor, struct stat *ret)
{
    const struct opened *opened = opened_as(descriptor);
    if (opened == NULL || !goes_on(DISK_LOOK, opened->path))
        return -1;
    fill_stat(opened->node, ret);
    return 0;
}

int disk_access(const char *path)
{
    struct stat status;
    return disk_stat(path, &status);
}

int disk_unlink(const char *path)
{
    if (!goes_on(DISK_UNLINK, path))
        return -1;
    if (find(disk->now, name_in(path)) == NULL) {
        errno = ENOENT;
        return -1;
    }
    busy = true;
    rename_now(name_in(path), "", NULL);
    busy = false;
    return 0;
}

int disk_rename(const char *from, const char *to, bool keeps)
{
    if (!goes_on(DISK_RENAME, from))
        return -1;
    const struct name *name = find(disk->now, name_in(from));
    if (name == NULL || (keeps && find(disk->now, name_in(to)) != NULL)) {
        errno = name == NULL ? ENOENT : EEXIST;
        return -1;
    }
    busy = true;
    rename_now(keeps ? "" : name_in(from), name_in(to), name->node);
    busy = false;
    return 0;
}

int disk_lock(int descriptor, int operation)
{
    const struct opened *opened = opened_as(descriptor);
    if (opened == NULL || !goes_on(DISK_LOCK, opened->path))
        return -1;
    int *holder = &opened->node->locked_by;
    if ((operation & LOCK_UN) != 0) {
        *holder = *holder == descriptor ? 0 : *holder;
    } else if (*holder != 0 && *holder != descriptor) {
        errno = EWOULDBLOCK;
        return -1;
    } else {
        *holder = descriptor;
    }
    return 0;
}

int disk_note(int descriptor, const struct timespec *at)
{
    const struct opened *opened = opened_as(descriptor);
    if (opened == NULL)
        return -1;
    opened->node->noted = *at;
    return 0;
}

/* Only what is shared between connections is mapped, and nobody reads it from the file. */
void *disk_map(int descriptor, size_t len)
{
    enum { PAGE = 4096 };
    const struct opened *opened = opened_as(descriptor);
    struct map *map = maps;
    if (opened == NULL || !goes_on(DISK_MAP, opened->path))
        return NULL;
    while (map < maps + MAPS_MAX && map->at != NULL)
        map++;
    if (map == maps + MAPS_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    busy = true;
    map->at = need(aligned_alloc(PAGE, (len + PAGE - 1) / PAGE * PAGE));
    memset(map->at, 0, len);
    busy = false;
    return map->at;
}

bool disk_unmap(void *at)
{
    for (size_t i = 0; i < MAPS_MAX; i++)
        if (maps[i].at == at && at != NULL) {
            free(at);
            maps[i].at = NULL;
            return true;
        }
    return false;
}
