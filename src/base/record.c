#include "base/record.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>

#include "base/hex.h"
#include "base/times.h"
#include "base/utf8.h"

enum {
    FIELDS_MAX = 64,
    MILLI_TEXT_MAX = 24, /* -9223372036854775.807 */
    PATH_MAX_LEN = 128,
    EXPECTED_MAX = 256,
    SHOWN_BYTES_MAX = 60, /* of a value in a message */
};

/* One object being read. A nested one knows the object around it, so that an error can say the
 * whole path; nothing is put together before there is an error. */
struct reader {
    const struct record_type *type;
    uint64_t mask;
    enum record_source source;
    const char *what;
    struct arena *arena;
    struct err *err;
    const struct reader *outer;       /* NULL: this is the outermost */
    const struct record_field *field; /* of `outer`, that holds this object */
};

/* A value as messages show it. */
struct shown {
    char text[SHOWN_BYTES_MAX + 8];
};

static uint64_t fields_mask(const struct record_type *type)
{
    assert(type->count <= FIELDS_MAX);
    return type->count == FIELDS_MAX ? RECORD_ALL : (UINT64_C(1) << type->count) - 1;
}

/* ---- messages ---- */

/* Cuts where a character starts, so that none is shown in half. */
static size_t cut_length(struct str text, size_t len_max)
{
    size_t len = text.len;
    if (len > len_max) {
        len = len_max;
        while (len > 0 && ((unsigned char)text.at[len] & 0xc0) == 0x80)
            len--;
    }
    return len;
}

static struct shown show(struct str value)
{
    struct shown shown;
    switch (json_type(value)) {
    case JSON_OBJECT:
        (void)snprintf(shown.text, sizeof shown.text, "an object");
        break;
    case JSON_ARRAY:
        (void)snprintf(shown.text, sizeof shown.text, "an array");
        break;
    default: {
        size_t len = cut_length(value, SHOWN_BYTES_MAX);
        const char *end = len == value.len ? "" : json_type(value) == JSON_STRING ? "…\"" : "…";
        (void)snprintf(shown.text, sizeof shown.text, "%.*s%s", (int)len,
                       value.at == NULL ? "" : value.at, end);
    }
    }
    return shown;
}

/* The path to the reader's object: "" for the outermost, else as "retry." */
static size_t path_of(const struct reader *reader, char ret[PATH_MAX_LEN])
{
    ret[0] = '\0';
    if (reader->outer == NULL)
        return 0;
    size_t len = path_of(reader->outer, ret);
    struct str name = reader->field->name;
    int added = snprintf(ret + len, PATH_MAX_LEN - len, "%.*s.", STR_ARG(name));
    assert(added > 0 && (size_t)added < PATH_MAX_LEN - len);
    return len + (size_t)added;
}

/* "submit: retry.max_attempts" */
struct field_label {
    char text[2 * PATH_MAX_LEN + NAME_BYTES_MAX];
};

static struct field_label label_of(const struct reader *reader, struct str name)
{
    char path[PATH_MAX_LEN];
    (void)path_of(reader, path);
    struct field_label label;
    (void)snprintf(label.text, sizeof label.text, "%.*s%s%s%.*s", PATH_MAX_LEN,
                   reader->what == NULL ? "" : reader->what, reader->what == NULL ? "" : ": ", path,
                   (int)name.len, name.at);
    return label;
}

/* Thousandths as a decimal number without needless zeros; returns its length. */
static size_t milli_format(int64_t value, char ret[MILLI_TEXT_MAX])
{
    /* The magnitude of INT64_MIN exists only without a sign. */
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char text[MILLI_TEXT_MAX];
    size_t start = sizeof text;
    uint64_t fraction = magnitude % 1000;
    if (fraction > 0) {
        int digits = 3;
        for (; fraction % 10 == 0; fraction /= 10)
            digits--;
        for (; digits > 0; digits--, fraction /= 10)
            text[--start] = (char)('0' + fraction % 10);
        text[--start] = '.';
    }
    uint64_t whole = magnitude / 1000;
    do {
        text[--start] = (char)('0' + whole % 10);
        whole /= 10;
    } while (whole > 0);
    if (value < 0)
        text[--start] = '-';
    size_t len = sizeof text - start;
    memcpy(ret, text + start, len);
    return len;
}

/* Without bounds a number may be all that is not negative and fits. */
static int64_t field_max(const struct record_field *field)
{
    int64_t largest = field->kind == RECORD_NUMBER ? INT_MAX : INT64_MAX;
    return field->min == 0 && field->max == 0 ? largest : field->max;
}

static void describe_range(const struct record_field *field, char *ret, size_t size)
{
    bool whole = field->kind != RECORD_MILLI;
    const char *number = whole ? "a whole number" : "a number with at most 3 decimals,";
    char min[MILLI_TEXT_MAX];
    char max[MILLI_TEXT_MAX];
    int64_t upper = field_max(field);
    if (whole) {
        (void)snprintf(min, sizeof min, "%lld", (long long)field->min);
        (void)snprintf(max, sizeof max, "%lld", (long long)upper);
    } else {
        min[milli_format(field->min, min)] = '\0';
        max[milli_format(upper, max)] = '\0';
    }
    if (upper == INT64_MAX)
        (void)snprintf(ret, size, "%s from %s up", number, min);
    else
        (void)snprintf(ret, size, "%s from %s to %s", number, min, max);
}

static void describe_words(const struct record_names *names, char *ret, size_t size)
{
    size_t len = 0;
    const char *before = names->count > 2 ? "one of " : "";
    for (size_t i = 1; i < names->count && len < size; i++) {
        int added = snprintf(ret + len, size - len, "%s%.*s", before, STR_ARG(names->at[i]));
        len += added < 0 ? 0 : (size_t)added;
        before = ", ";
    }
}

/* What a field takes, in words. */
static void describe(const struct record_field *field, char *ret, size_t size)
{
    const char *words = "a value";
    switch (field->kind) {
    case RECORD_NAME:
    case RECORD_TEXT:
        words = "a string";
        break;
    case RECORD_JSON:
        break;
    case RECORD_OBJECT:
    case RECORD_NESTED:
        words = "an object";
        break;
    case RECORD_ARRAY:
        words = "an array";
        break;
    case RECORD_INT:
    case RECORD_MILLI:
    case RECORD_NUMBER:
        describe_range(field, ret, size);
        return;
    case RECORD_TIME:
        words = "a time such as \"2026-11-15T19:53:15.042Z\"";
        break;
    case RECORD_BOOL:
        words = "true or false";
        break;
    case RECORD_HEX:
        (void)snprintf(ret, size, "a string of %u lower-case hex digits", field->size * 2);
        return;
    case RECORD_ENUM:
        describe_words(field->names, ret, size);
        return;
    }
    (void)snprintf(ret, size, "%s", words);
}

static enum error_code refuse(const struct reader *reader, const struct record_field *field,
                              struct str value)
{
    char expected[EXPECTED_MAX];
    describe(field, expected, sizeof expected);
    return err_set(reader->err, ERR_BAD_REQUEST, "%s must be %s, not %s",
                   label_of(reader, field->name).text, expected, show(value).text);
}

static enum error_code refuse_unknown(const struct reader *reader, struct str raw_key)
{
    char path[PATH_MAX_LEN];
    (void)path_of(reader, path);
    struct str key = {raw_key.at + 1, raw_key.len - 2};
    size_t len = cut_length(key, SHOWN_BYTES_MAX);
    return err_set(reader->err, ERR_UNKNOWN_FIELD, "%s%sunknown field \"%s%.*s%s\"",
                   reader->what == NULL ? "" : reader->what, reader->what == NULL ? "" : ": ", path,
                   (int)len, key.at, len < key.len ? "…" : "");
}

/* ---- names and strings ---- */

enum name_flaw { NAME_GOOD, NAME_EMPTY, NAME_LONG, NAME_CONTROL, NAME_NOT_UTF8 };

/* Past the ASCII that most names are all of. Controls are also U+0080 to U+009F, which terminals
 * obey just like those below U+0020. */
static enum name_flaw name_flaw_from(const char *at, const char *end)
{
    while (at < end) {
        size_t len = utf8_length(at, end);
        unsigned char first = (unsigned char)at[0];
        if (len == 0)
            return NAME_NOT_UTF8;
        bool control =
            first < 0x20 || first == 0x7f || (first == 0xc2 && (unsigned char)at[1] < 0xa0);
        if (control)
            return NAME_CONTROL;
        at += len;
    }
    return NAME_GOOD;
}

static enum name_flaw name_flaw(struct str name)
{
    if (name.len - 1 >= NAME_BYTES_MAX)
        return name.len == 0 ? NAME_EMPTY : NAME_LONG;
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)(name.at[i] - 0x20) >= 0x7f - 0x20)
            return name_flaw_from(name.at + i, name.at + name.len);
    return NAME_GOOD;
}

static enum error_code refuse_name(enum name_flaw flaw, struct str name, const char *what,
                                   struct err *err)
{
    int len = (int)cut_length(name, SHOWN_BYTES_MAX);
    switch (flaw) {
    case NAME_GOOD:
        return ERR_OK;
    case NAME_EMPTY:
        return err_set(err, ERR_BAD_REQUEST, "%s must not be empty", what);
    case NAME_LONG:
        return err_set(err, ERR_BAD_REQUEST, "%s must be at most %d bytes long, not %zu: \"%.*s…\"",
                       what, NAME_BYTES_MAX, name.len, len, name.at);
    case NAME_CONTROL:
        return err_set(err, ERR_BAD_REQUEST, "%s must not contain control characters: \"%.*s%s\"",
                       what, len, name.at, (size_t)len < name.len ? "…" : "");
    case NAME_NOT_UTF8:
        break;
    }
    return err_set(err, ERR_BAD_REQUEST, "%s must be valid UTF-8: \"%.*s%s\"", what, len, name.at,
                   (size_t)len < name.len ? "…" : "");
}

enum error_code record_check_name(struct str name, const char *what, struct err *err)
{
    assert(what != NULL);
    enum name_flaw flaw = name_flaw(name);
    return flaw == NAME_GOOD ? ERR_OK : refuse_name(flaw, name, what, err);
}

/* Characters of Unicode that are not seen and change how others are: general category Cf, and the
 * separators of lines and paragraphs. */
static bool is_format(uint32_t c)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } ranges[] = {
        {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},
        {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},     {0x180e, 0x180e},
        {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},   {0xfeff, 0xfeff},
        {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
        {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0001, 0xe007f},
    };
    bool found = false;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0] && !found; i++)
        found = c >= ranges[i].first && c <= ranges[i].last;
    return found;
}

/* The code point of a valid sequence of `len` bytes. */
static uint32_t code_point(const char *at, size_t len)
{
    static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = (unsigned char)at[0] & masks[len];
    for (size_t i = 1; i < len; i++)
        value = value << 6 | ((unsigned char)at[i] & 0x3f);
    return value;
}

static bool is_ascii(struct str text)
{
    unsigned char all = 0;
    for (size_t i = 0; i < text.len; i++)
        all |= (unsigned char)text.at[i];
    return all < 0x80;
}

enum error_code record_check_shown(struct str name, const char *what, struct err *err)
{
    const char *end = str_start(name) + name.len;
    for (const char *at = str_start(name); at < end;) {
        size_t len = utf8_length(at, end);
        if (len == 0)
            break; /* not a name: others say so */
        uint32_t c = code_point(at, len);
        if (c >= 0x80 && is_format(c))
            return err_set(
                err, ERR_BAD_REQUEST,
                "%s must not contain invisible formatting characters: found U+%04X at byte %zu",
                what, (unsigned)c, (size_t)(at - name.at));
        at += len;
    }
    return ERR_OK;
}

bool record_is_name(struct str name)
{
    return name_flaw(name) == NAME_GOOD;
}

/* Why json_string failed on a value that starts as a string: its text is damaged, or memory ran
 * out. A string alone needs no memory to be checked. */
static enum error_code string_failure(struct str raw, const char *what, struct arena *arena,
                                      struct err *err)
{
    enum error_code code = json_check(raw, raw.len, what, arena, err);
    return code != ERR_OK ? code : err_set(err, ERR_NO_MEMORY, "%s: out of memory", what);
}

enum error_code record_string(struct str raw, const char *what, struct arena *arena,
                              struct str *ret, struct err *err)
{
    assert(what != NULL);
    if (json_type(raw) != JSON_STRING)
        return err_set(err, ERR_BAD_REQUEST, "%s must be a string, not %s", what, show(raw).text);
    if (!json_string(raw, arena, ret))
        return string_failure(raw, what, arena, err);
    return ERR_OK;
}

bool record_hex(struct str digits, uint8_t *ret, size_t size)
{
    if (digits.len % 2 != 0 || digits.len / 2 != size)
        return false;
    bool wrong = false;
    for (size_t i = 0; i < digits.len; i++)
        wrong |= hex_value(digits.at[i]) < 0 || (digits.at[i] >= 'A' && digits.at[i] <= 'F');
    for (size_t i = 0; i < size && !wrong; i++) {
        int high = hex_value(digits.at[2 * i]);
        int low = hex_value(digits.at[2 * i + 1]);
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return !wrong;
}

int record_enum(const struct record_names *names, struct str text)
{
    for (size_t i = 1; i < names->count; i++)
        if (str_eq(names->at[i], text))
            return (int)i;
    return 0;
}

/* ---- reading ---- */

/* A decimal number with at most three decimals, exactly; false for anything else, exponents too. */
static bool milli_parse(struct str raw, int64_t *ret)
{
    if (json_type(raw) != JSON_NUMBER)
        return false;
    bool negative = raw.at[0] == '-';
    bool point = false;
    int decimals = 0;
    uint64_t magnitude = 0;
    for (size_t i = negative ? 1 : 0; i < raw.len; i++) {
        if (raw.at[i] == '.') {
            point = true;
            continue;
        }
        uint64_t digit = (uint64_t)(unsigned char)raw.at[i] - '0';
        decimals += point ? 1 : 0;
        if (digit > 9 || decimals > 3 || magnitude > (INT64_MAX - digit) / 10)
            return false;
        magnitude = magnitude * 10 + digit;
    }
    for (; decimals < 3; decimals++) {
        if (magnitude > INT64_MAX / 10)
            return false;
        magnitude *= 10;
    }
    *ret = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

static enum error_code read_string(const struct reader *reader, const struct record_field *field,
                                   struct str value, struct str *ret)
{
    if (json_type(value) != JSON_STRING)
        return refuse(reader, field, value);
    struct str text;
    if (!json_string(value, reader->arena, &text)) {
        return string_failure(value, label_of(reader, field->name).text, reader->arena,
                              reader->err);
    }
    if (field->kind == RECORD_NAME) {
        enum name_flaw flaw = name_flaw(text);
        if (flaw != NAME_GOOD && (flaw != NAME_LONG || reader->source != RECORD_STORED))
            return refuse_name(flaw, text, label_of(reader, field->name).text, reader->err);
        /* Most names are all ASCII, which spares the label of the field. */
        enum error_code code =
            reader->source == RECORD_STORED || is_ascii(text)
                ? ERR_OK
                : record_check_shown(text, label_of(reader, field->name).text, reader->err);
        if (code != ERR_OK)
            return code;
    } else if (field->kind == RECORD_TEXT) {
        size_t len_max = field->max == 0 ? TEXT_BYTES_MAX : (size_t)field->max;
        if (text.len > len_max && reader->source != RECORD_STORED) {
            return err_set(reader->err, ERR_BAD_REQUEST,
                           "%s must be at most %zu bytes long, not %zu",
                           label_of(reader, field->name).text, len_max, text.len);
        }
    }
    *ret = text;
    return ERR_OK;
}

static enum error_code read_raw(const struct reader *reader, const struct record_field *field,
                                struct str value, struct str *ret)
{
    enum json_type type = json_type(value);
    if (field->kind == RECORD_JSON
            ? type == JSON_INVALID
            : type != (field->kind == RECORD_OBJECT ? JSON_OBJECT : JSON_ARRAY))
        return refuse(reader, field, value);
    /* What is shorter cannot be too deep. */
    if (field->kind == RECORD_JSON && reader->source != RECORD_STORED &&
        value.len > 2 * (size_t)JSON_DEPTH_MAX && json_depth(value) > JSON_DEPTH_MAX)
        return err_set(reader->err, ERR_BAD_REQUEST, "%s is nested deeper than %d levels",
                       label_of(reader, field->name).text, JSON_DEPTH_MAX);
    if (type != JSON_NULL)
        *ret = value;
    return ERR_OK;
}

/* The value of a number or a flag: of a query, what the string says. */
static struct str plain_value(const struct reader *reader, struct str value)
{
    struct str text;
    bool quoted = reader->source == RECORD_QUERY && json_type(value) == JSON_STRING;
    return quoted && json_string(value, reader->arena, &text) ? text : value;
}

static enum error_code read_number(const struct reader *reader, const struct record_field *field,
                                   struct str value, int64_t *ret)
{
    int64_t number;
    struct str plain = plain_value(reader, value);
    bool good =
        field->kind == RECORD_MILLI ? milli_parse(value, &number) : json_int64(plain, &number);
    /* No sum of what was stored can overflow. */
    const int64_t stored_max = INT64_C(1) << 53;
    bool stored = reader->source == RECORD_STORED;
    int64_t min = stored ? -stored_max : field->min;
    int64_t max = stored ? stored_max : field_max(field);
    if (!good || number < min || number > max)
        return refuse(reader, field, value);
    *ret = number;
    return ERR_OK;
}

static enum error_code read_enum_number(const struct reader *reader,
                                        const struct record_field *field, struct str value,
                                        void *ret)
{
    int64_t number = 0;
    enum error_code code = read_number(reader, field, value, &number);
    if (code == ERR_OK) {
        int word = (int)number;
        assert(field->size == sizeof word);
        memcpy(ret, &word, sizeof word);
    }
    return code;
}

/* Strings that stand for something else: times, hashes, words. */
static enum error_code read_encoded(const struct reader *reader, const struct record_field *field,
                                    struct str value, void *ret)
{
    struct str text = {NULL, 0};
    enum error_code code = read_string(reader, field, value, &text);
    if (code != ERR_OK)
        return code;
    if (field->kind == RECORD_TIME) {
        int64_t time_ms;
        if (!time_parse(text, &time_ms))
            return refuse(reader, field, value);
        memcpy(ret, &time_ms, sizeof time_ms);
        return ERR_OK;
    }
    if (field->kind == RECORD_HEX)
        return record_hex(text, ret, field->size) ? ERR_OK : refuse(reader, field, value);
    int word = record_enum(field->names, text);
    if (word == 0)
        return refuse(reader, field, value);
    assert(field->size == sizeof word);
    memcpy(ret, &word, sizeof word);
    return ERR_OK;
}

static enum error_code read_object(const struct reader *reader, struct str json, void *record);

static enum error_code read_field(const struct reader *reader, const struct record_field *field,
                                  struct str value, void *member)
{
    switch (field->kind) {
    case RECORD_NAME:
    case RECORD_TEXT:
        return read_string(reader, field, value, member);
    case RECORD_JSON:
    case RECORD_OBJECT:
    case RECORD_ARRAY:
        return read_raw(reader, field, value, member);
    case RECORD_INT:
    case RECORD_MILLI:
        return read_number(reader, field, value, member);
    case RECORD_NUMBER:
        return read_enum_number(reader, field, value, member);
    case RECORD_BOOL:
        return json_bool(plain_value(reader, value), member) ? ERR_OK
                                                             : refuse(reader, field, value);
    case RECORD_TIME:
    case RECORD_HEX:
    case RECORD_ENUM:
        return read_encoded(reader, field, value, member);
    case RECORD_NESTED:
        break;
    }
    if (json_type(value) != JSON_OBJECT)
        return refuse(reader, field, value);
    struct reader nested = *reader;
    nested.type = field->nested;
    nested.mask = fields_mask(field->nested);
    nested.outer = reader;
    nested.field = field;
    return read_object(&nested, value, member);
}

/* Among the fields of `mask`, as a key without escapes, whose length rules out most of them before
 * a byte is compared. */
static const struct record_field *find_plain(const struct record_type *type, uint64_t mask,
                                             struct str key)
{
    for (; mask != 0; mask &= mask - 1) {
        const struct record_field *field = &type->fields[__builtin_ctzll(mask)];
        if (key.len == field->name.len + 2 &&
            memcmp(key.at + 1, field->name.at, field->name.len) == 0)
            return field;
    }
    return NULL;
}

/* The field of a key, searched first among those from `next` on: what record_write wrote comes in
 * the table's order, and then one of the first looks finds it. */
static const struct record_field *find_field(const struct reader *reader, struct str key,
                                             size_t next)
{
    uint64_t later = next < FIELDS_MAX ? reader->mask & RECORD_ALL << next : 0;
    const struct record_field *field = find_plain(reader->type, later, key);
    if (field == NULL)
        field = find_plain(reader->type, reader->mask & ~later, key);
    if (field == NULL && memchr(key.at, '\\', key.len) != NULL) {
        for (uint64_t rest = reader->mask; field == NULL && rest != 0; rest &= rest - 1) {
            const struct record_field *candidate = &reader->type->fields[__builtin_ctzll(rest)];
            field = json_key_is(key, candidate->name) ? candidate : NULL;
        }
    }
    return field;
}

static enum error_code read_object(const struct reader *reader, struct str json, void *record)
{
    struct json_iter iter;
    const char *what = reader->what == NULL ? "the object" : reader->what;
    if (!json_object_begin(&iter, json)) {
        return err_set(reader->err, ERR_BAD_REQUEST, "%s must be an object, not %s", what,
                       show(json_trim(json)).text);
    }
    char *base = record;
    struct str key;
    struct str value;
    size_t next = 0;
    while (json_object_next(&iter, &key, &value)) {
        const struct record_field *field = find_field(reader, key, next);
        if (field == NULL) {
            if (reader->source != RECORD_STORED)
                return refuse_unknown(reader, key);
            continue;
        }
        enum error_code code = read_field(reader, field, value, base + field->offset);
        if (code != ERR_OK)
            return code;
        next = (size_t)(field - reader->type->fields) + 1;
    }
    if (!json_iter_ok(&iter))
        return err_set(reader->err, ERR_BAD_REQUEST, "%s is not valid JSON", what);
    return ERR_OK;
}

enum error_code record_read(const struct record_type *type, struct str json, uint64_t mask,
                            enum record_source source, const char *what, struct arena *arena,
                            void *record, struct err *err)
{
    assert(type != NULL);
    assert(record != NULL);
    struct reader reader = {
        .type = type,
        .mask = mask & fields_mask(type),
        .source = source,
        .what = what,
        .arena = arena,
        .err = err,
    };
    return read_object(&reader, json, record);
}

/* ---- writing and comparing ---- */

static bool bytes_are_zero(const uint8_t *bytes, size_t len)
{
    uint8_t any = 0;
    for (size_t i = 0; i < len; i++)
        any |= bytes[i];
    return any == 0;
}

static unsigned enum_value(const struct record_field *field, const void *member)
{
    unsigned word;
    assert(field->size == sizeof word);
    memcpy(&word, member, sizeof word);
    return word;
}

static bool record_is_set(const struct record_type *type, const char *base);

static bool member_is_set(const struct record_field *field, const void *member)
{
    switch (field->kind) {
    case RECORD_NAME:
    case RECORD_TEXT:
    case RECORD_JSON:
    case RECORD_OBJECT:
    case RECORD_ARRAY:
        return str_is_set(*(const struct str *)member);
    case RECORD_INT:
    case RECORD_MILLI:
    case RECORD_TIME:
        return *(const int64_t *)member != 0;
    case RECORD_BOOL:
        return *(const bool *)member;
    case RECORD_HEX:
        return !bytes_are_zero(member, field->size);
    case RECORD_ENUM:
    case RECORD_NUMBER:
        return enum_value(field, member) != 0;
    case RECORD_NESTED:
        break;
    }
    return record_is_set(field->nested, member);
}

/* A nested record is set when one of its fields is. */
static bool record_is_set(const struct record_type *type, const char *base)
{
    for (size_t i = 0; i < type->count; i++)
        if (member_is_set(&type->fields[i], base + type->fields[i].offset))
            return true;
    return false;
}

static struct str enum_text(const struct record_field *field, const void *member)
{
    unsigned word = enum_value(field, member);
    assert(word < field->names->count);
    return field->names->at[word];
}

static void write_member(const struct record_field *field, const void *member,
                         struct json_writer *writer)
{
    switch (field->kind) {
    case RECORD_NAME:
    case RECORD_TEXT:
        json_put_string(writer, *(const struct str *)member);
        break;
    case RECORD_JSON:
    case RECORD_OBJECT:
    case RECORD_ARRAY:
        json_put_raw(writer, *(const struct str *)member);
        break;
    case RECORD_INT:
        json_put_int(writer, *(const int64_t *)member);
        break;
    case RECORD_MILLI: {
        char text[MILLI_TEXT_MAX];
        size_t len = milli_format(*(const int64_t *)member, text);
        json_put_raw(writer, (struct str){text, len});
        break;
    }
    case RECORD_TIME:
        json_put_time(writer, *(const int64_t *)member);
        break;
    case RECORD_BOOL:
        json_put_bool(writer, true);
        break;
    case RECORD_HEX:
        json_put_hex(writer, member, field->size);
        break;
    case RECORD_ENUM:
        json_put_string(writer, enum_text(field, member));
        break;
    case RECORD_NUMBER:
        json_put_int(writer, enum_value(field, member));
        break;
    case RECORD_NESTED:
        json_begin_object(writer);
        record_write(field->nested, member, RECORD_ALL, writer);
        json_end_object(writer);
        break;
    }
}

void record_write(const struct record_type *type, const void *record, uint64_t mask,
                  struct json_writer *writer)
{
    assert(type != NULL);
    assert(record != NULL);
    const char *base = record;
    for (uint64_t rest = mask & fields_mask(type); rest != 0; rest &= rest - 1) {
        const struct record_field *field = &type->fields[__builtin_ctzll(rest)];
        const char *member = base + field->offset;
        if (member_is_set(field, member) || field->kind == RECORD_NUMBER) {
            json_key(writer, field->name);
            write_member(field, member, writer);
        }
    }
}

static bool members_equal(const struct record_field *field, const void *a, const void *b)
{
    switch (field->kind) {
    case RECORD_NAME:
    case RECORD_TEXT:
    case RECORD_JSON:
    case RECORD_OBJECT:
    case RECORD_ARRAY:
        return str_eq(*(const struct str *)a, *(const struct str *)b);
    case RECORD_INT:
    case RECORD_MILLI:
    case RECORD_TIME:
    case RECORD_BOOL:
    case RECORD_HEX:
    case RECORD_ENUM:
    case RECORD_NUMBER:
        return memcmp(a, b, field->size) == 0;
    case RECORD_NESTED:
        break;
    }
    return record_differs(field->nested, a, b, RECORD_ALL) == NULL;
}

const struct record_field *record_differs(const struct record_type *type, const void *a,
                                          const void *b, uint64_t mask)
{
    assert(type != NULL);
    const char *base_a = a;
    const char *base_b = b;
    for (uint64_t rest = mask & fields_mask(type); rest != 0; rest &= rest - 1) {
        const struct record_field *field = &type->fields[__builtin_ctzll(rest)];
        if (!members_equal(field, base_a + field->offset, base_b + field->offset))
            return field;
    }
    return NULL;
}

bool record_copy_texts(const struct record_type *type, void *record, struct arena *arena)
{
    char *base = record;
    for (size_t i = 0; i < type->count; i++) {
        const struct record_field *field = &type->fields[i];
        void *member = base + field->offset;
        if (field->kind == RECORD_NESTED) {
            if (!record_copy_texts(field->nested, member, arena))
                return false;
        } else if (field->kind <= RECORD_ARRAY) {
            struct str *text = member;
            struct str copy = arena_copy(arena, *text);
            if (str_is_set(*text) && !str_is_set(copy))
                return false;
            *text = copy;
        }
    }
    return true;
}
