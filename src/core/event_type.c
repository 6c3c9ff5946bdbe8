#include "core/event_type.h"

#include <assert.h>
#include <string.h>

#include "core/event.h"

struct event_info {
    struct str name; /* absent: no type has this number */
    enum event_class class;
    uint64_t fields;
};

static const struct event_info event_types[] = {
    [EVENT_UNKNOWN] = {{"", 0}, EVENT_CLASS_APPENDED, 0},
#define F(field) | (UINT64_C(1) << EVENT_FIELD_##field)
#define EVENT(symbol, number, name, class_, fields)                                                \
    [number] = {{name, sizeof(name) - 1}, EVENT_CLASS_##class_, UINT64_C(0) fields},
#include "core/event.def"
#undef F
};

enum { EVENT_LIMIT = sizeof event_types / sizeof event_types[0] };

_Static_assert(EVENT_FIELD_COUNT <= 64, "a mask of 64 bits has room for all fields");

struct event_alias {
    struct str name;
    enum event_type type;
};

static const struct event_alias event_aliases[] = {
#define EVENT_ALIAS(symbol, name) {{name, sizeof(name) - 1}, EVENT_##symbol},
#include "core/event.def"
};

/* The lengths of all names by number, side by side in one cache line. Names are looked up for every
 * event that is loaded: memchr finds those of the right length, and their last eight bytes, which
 * differ where the first do not, tell them apart. Half the time of comparing name by name. */
static const uint8_t name_lengths[] = {
#define EVENT(symbol, number, name, class_, fields) [number] = sizeof(name) - 1,
#include "core/event.def"
};

_Static_assert(sizeof name_lengths == EVENT_LIMIT, "both tables are by number");

enum { TAIL_LEN = sizeof(uint64_t) };

#define EVENT(symbol, number, name, class_, fields)                                                \
    _Static_assert(sizeof(name) == 1 || sizeof(name) > TAIL_LEN, "a name has a tail");
#include "core/event.def"

static uint64_t name_tail(struct str name)
{
    assert(name.len >= TAIL_LEN);
    uint64_t tail;
    memcpy(&tail, name.at + name.len - TAIL_LEN, TAIL_LEN);
    return tail;
}

static enum event_type canonical_parse(struct str name)
{
    if (name.len < TAIL_LEN || name.len > UINT8_MAX)
        return EVENT_UNKNOWN;

    uint64_t tail = name_tail(name);
    const uint8_t *end = name_lengths + sizeof name_lengths;
    const uint8_t *at = name_lengths;
    while ((at = memchr(at, (int)name.len, (size_t)(end - at))) != NULL) {
        size_t number = (size_t)(at - name_lengths);
        struct str candidate = event_types[number].name;
        if (name_tail(candidate) == tail && memcmp(candidate.at, name.at, name.len) == 0)
            return (enum event_type)number;
        at++;
    }
    return EVENT_UNKNOWN;
}

struct str event_type_name(enum event_type type)
{
    assert((size_t)type < EVENT_LIMIT);
    assert(str_is_set(event_types[type].name));
    return event_types[type].name;
}

enum event_type event_type_parse(struct str name)
{
    enum event_type type = canonical_parse(name);
    if (type != EVENT_UNKNOWN)
        return type;
    if (name.len > 0 && memchr(name.at, '.', name.len) != NULL)
        return EVENT_CUSTOM;

    for (size_t i = 0; i < sizeof event_aliases / sizeof event_aliases[0]; i++)
        if (str_eq(name, event_aliases[i].name))
            return event_aliases[i].type;
    return EVENT_UNKNOWN;
}

enum event_class event_type_class(enum event_type type)
{
    assert((size_t)type < EVENT_LIMIT);
    assert(str_is_set(event_types[type].name));
    return event_types[type].class;
}

uint64_t event_type_fields(enum event_type type)
{
    assert((size_t)type < EVENT_LIMIT);
    assert(str_is_set(event_types[type].name));
    return event_types[type].fields;
}

static bool may_carry(enum event_type type, enum event_field field)
{
    return (event_type_fields(type) >> field & 1) != 0;
}

bool event_type_begins_lease(enum event_type type)
{
    return may_carry(type, EVENT_FIELD_TOKEN_HASH);
}

bool event_type_ends_lease(enum event_type type)
{
    return may_carry(type, EVENT_FIELD_PROGRESS) && event_type_class(type) != EVENT_CLASS_TELEMETRY;
}
