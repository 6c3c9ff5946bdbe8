#include "core/selector.h"

#include <assert.h>
#include <string.h>

#include "base/record.h"

enum symbol_type {
    SYMBOL_END,
    SYMBOL_WORD, /* a key or a value; "in" and "notin" too, since only their place tells */
    SYMBOL_COMMA,
    SYMBOL_OPEN,
    SYMBOL_CLOSE,
    SYMBOL_NOT,
    SYMBOL_EQUAL,     /* = or == */
    SYMBOL_NOT_EQUAL, /* != */
};

struct parser {
    struct str text;
    size_t at; /* where the next symbol starts, or the white space before it */
    struct err *err;
    struct requirement *requirements;
    uint32_t requirement_count;
    struct str *values; /* of all requirements, one behind the other */
    uint32_t value_count;
};

struct symbol {
    enum symbol_type type;
    struct str text;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* What a word goes on with. What must not be in one is refused when it is used, all of it shown. */
static bool is_word(char c)
{
    return !is_space(c) && c != ',' && c != '(' && c != ')' && c != '!' && c != '=';
}

/* The place is a byte offset, as in errors about JSON. */
static enum error_code fail_at(const struct parser *parser, struct symbol symbol,
                               const char *problem)
{
    size_t offset = (size_t)(symbol.text.at - parser->text.at);
    if (symbol.type == SYMBOL_END) {
        return err_set(parser->err, ERR_BAD_REQUEST, "selector \"%.*s\": byte %zu: %s, but it ends",
                       STR_ARG(parser->text), offset, problem);
    }
    return err_set(parser->err, ERR_BAD_REQUEST, "selector \"%.*s\": byte %zu: %s, not \"%.*s\"",
                   STR_ARG(parser->text), offset, problem, STR_ARG(symbol.text));
}

static struct symbol make_symbol(const struct parser *parser, enum symbol_type type, size_t start,
                                 size_t len)
{
    return (struct symbol){type, {parser->text.at + start, len}};
}

/* The next symbol, without moving. */
static struct symbol look(const struct parser *parser)
{
    struct str text = parser->text;
    size_t start = parser->at;
    while (start < text.len && is_space(text.at[start]))
        start++;
    if (start == text.len)
        return make_symbol(parser, SYMBOL_END, start, 0);
    bool equal_next = start + 1 < text.len && text.at[start + 1] == '=';
    switch (text.at[start]) {
    case ',':
        return make_symbol(parser, SYMBOL_COMMA, start, 1);
    case '(':
        return make_symbol(parser, SYMBOL_OPEN, start, 1);
    case ')':
        return make_symbol(parser, SYMBOL_CLOSE, start, 1);
    case '!':
        return make_symbol(parser, equal_next ? SYMBOL_NOT_EQUAL : SYMBOL_NOT, start,
                           equal_next ? 2 : 1);
    case '=':
        return make_symbol(parser, SYMBOL_EQUAL, start, equal_next ? 2 : 1);
    default:
        break;
    }
    size_t end = start;
    while (end < text.len && is_word(text.at[end]))
        end++;
    return make_symbol(parser, SYMBOL_WORD, start, end - start);
}

static void take(struct parser *parser, struct symbol symbol)
{
    parser->at = (size_t)(symbol.text.at - parser->text.at) + symbol.text.len;
}

/* One part of a key, or a value: it starts and ends with a letter or a digit. */
static bool part_is_good(struct str part)
{
    if (part.len == 0 || !is_alnum(part.at[0]) || !is_alnum(part.at[part.len - 1]))
        return false;
    for (size_t i = 0; i < part.len; i++) {
        char c = part.at[i];
        if (!is_alnum(c) && c != '-' && c != '_' && c != '.')
            return false;
    }
    return true;
}

static bool key_is_good(struct str key)
{
    const char *slash = memchr(key.at, '/', key.len);
    if (slash == NULL)
        return part_is_good(key);
    size_t prefix_len = (size_t)(slash - key.at);
    return part_is_good((struct str){key.at, prefix_len}) &&
           part_is_good((struct str){slash + 1, key.len - prefix_len - 1});
}

static enum error_code parse_key(struct parser *parser, struct str *ret)
{
    struct symbol symbol = look(parser);
    if (symbol.type != SYMBOL_WORD)
        return fail_at(parser, symbol, "expected a label's key");
    if (!key_is_good(symbol.text)) {
        return fail_at(parser, symbol,
                       "a key has letters, digits, '-', '_' and '.', starts and ends with a letter "
                       "or digit, and may have one prefix with '/'");
    }
    if (symbol.text.len > NAME_BYTES_MAX)
        return fail_at(parser, symbol, "a key has at most 128 bytes");
    take(parser, symbol);
    *ret = symbol.text;
    return ERR_OK;
}

/* A value, which is empty where none stands. */
static enum error_code parse_value(struct parser *parser)
{
    struct symbol symbol = look(parser);
    struct str value = STR("");
    if (symbol.type == SYMBOL_WORD) {
        if (!part_is_good(symbol.text)) {
            return fail_at(parser, symbol,
                           "a value has letters, digits, '-', '_' and '.', and starts and ends "
                           "with a letter or digit");
        }
        if (symbol.text.len > NAME_BYTES_MAX)
            return fail_at(parser, symbol, "a value has at most 128 bytes");
        take(parser, symbol);
        value = symbol.text;
    }
    parser->values[parser->value_count++] = value;
    return ERR_OK;
}

/* ( value , value … ) */
static enum error_code parse_set(struct parser *parser)
{
    struct symbol symbol = look(parser);
    if (symbol.type != SYMBOL_OPEN)
        return fail_at(parser, symbol, "expected '(' after in or notin");
    take(parser, symbol);
    symbol = look(parser);
    if (symbol.type == SYMBOL_CLOSE)
        return fail_at(parser, symbol, "expected at least one value");
    for (;;) {
        enum error_code code = parse_value(parser);
        if (code != ERR_OK)
            return code;
        symbol = look(parser);
        if (symbol.type == SYMBOL_CLOSE) {
            take(parser, symbol);
            return ERR_OK;
        }
        if (symbol.type != SYMBOL_COMMA)
            return fail_at(parser, symbol, "expected ',' or ')'");
        take(parser, symbol);
    }
}

/* What follows a key: a comparison, or nothing, which asks that the label is there. */
static enum error_code parse_comparison(struct parser *parser, struct requirement *requirement)
{
    struct symbol symbol = look(parser);
    switch (symbol.type) {
    case SYMBOL_END:
    case SYMBOL_COMMA:
        requirement->op = SELECTOR_EXISTS;
        return ERR_OK;
    case SYMBOL_EQUAL:
    case SYMBOL_NOT_EQUAL:
        requirement->op = symbol.type == SYMBOL_EQUAL ? SELECTOR_IN : SELECTOR_NOT_IN;
        take(parser, symbol);
        return parse_value(parser);
    case SYMBOL_WORD:
        if (str_eq(symbol.text, STR("in")) || str_eq(symbol.text, STR("notin"))) {
            requirement->op = symbol.text.at[0] == 'i' ? SELECTOR_IN : SELECTOR_NOT_IN;
            take(parser, symbol);
            return parse_set(parser);
        }
        break;
    case SYMBOL_OPEN:
    case SYMBOL_CLOSE:
    case SYMBOL_NOT:
        break;
    }
    return fail_at(parser, symbol, "expected '=', '==', '!=', 'in', 'notin' or ','");
}

static enum error_code parse_requirement(struct parser *parser)
{
    struct requirement requirement = {.values = parser->values + parser->value_count};
    uint32_t values_before = parser->value_count;
    struct symbol symbol = look(parser);
    bool negated = symbol.type == SYMBOL_NOT;
    if (negated)
        take(parser, symbol);
    enum error_code code = parse_key(parser, &requirement.key);
    if (code != ERR_OK)
        return code;
    if (negated) {
        requirement.op = SELECTOR_NOT_EXISTS;
    } else {
        code = parse_comparison(parser, &requirement);
        if (code != ERR_OK)
            return code;
    }
    if (parser->requirement_count == SELECTOR_REQUIREMENTS_MAX) {
        return err_set(parser->err, ERR_BAD_REQUEST,
                       "selector \"%.*s\": it has more than %d requirements", STR_ARG(parser->text),
                       SELECTOR_REQUIREMENTS_MAX);
    }
    requirement.value_count = parser->value_count - values_before;
    parser->requirements[parser->requirement_count++] = requirement;
    return ERR_OK;
}

static enum error_code parse_all(struct parser *parser)
{
    if (look(parser).type == SYMBOL_END)
        return ERR_OK;
    for (;;) {
        enum error_code code = parse_requirement(parser);
        if (code != ERR_OK)
            return code;
        struct symbol symbol = look(parser);
        if (symbol.type == SYMBOL_END)
            return ERR_OK;
        if (symbol.type != SYMBOL_COMMA)
            return fail_at(parser, symbol, "expected ','");
        take(parser, symbol);
    }
}

enum error_code selector_parse(struct str text, struct arena *arena, struct selector *ret,
                               struct err *err)
{
    assert(arena != NULL);
    assert(ret != NULL);
    if (text.len > SELECTOR_BYTES_MAX) {
        return err_set(err, ERR_BAD_REQUEST, "selector must be at most %d bytes long, not %zu",
                       SELECTOR_BYTES_MAX, text.len);
    }
    /* Requirements are separated by commas, and so are values: there is one more than commas at
     * most. */
    size_t items = 1;
    for (size_t i = 0; i < text.len; i++)
        items += text.at[i] == ',' ? 1 : 0;
    size_t room = items < SELECTOR_REQUIREMENTS_MAX ? items : SELECTOR_REQUIREMENTS_MAX;
    struct parser parser = {
        .text = str_is_set(text) ? text : STR(""),
        .err = err,
        .requirements = arena_zalloc(arena, room, sizeof *parser.requirements),
        .values = arena_zalloc(arena, items, sizeof *parser.values),
    };
    if (parser.requirements == NULL || parser.values == NULL)
        return err_set(err, ERR_NO_MEMORY, "selector: out of memory");
    enum error_code code = parse_all(&parser);
    if (code != ERR_OK)
        return code;
    assert(parser.value_count <= items);
    *ret = (struct selector){parser.requirements, parser.requirement_count};
    return ERR_OK;
}

const struct label *label_find(const struct label *labels, uint32_t label_count, struct str key)
{
    assert(labels != NULL || label_count == 0);
    for (uint32_t i = 0; i < label_count; i++)
        if (str_eq(labels[i].key, key))
            return &labels[i];
    return NULL;
}

static bool value_is_listed(const struct requirement *requirement, struct str value)
{
    for (uint32_t i = 0; i < requirement->value_count; i++)
        if (str_eq(requirement->values[i], value))
            return true;
    return false;
}

static bool requirement_holds(const struct requirement *requirement, const struct label *label)
{
    switch (requirement->op) {
    case SELECTOR_IN:
        return label != NULL && value_is_listed(requirement, label->value);
    case SELECTOR_NOT_IN:
        return label == NULL || !value_is_listed(requirement, label->value);
    case SELECTOR_EXISTS:
        return label != NULL;
    case SELECTOR_NOT_EXISTS:
        break;
    }
    return label == NULL;
}

bool selector_matches(const struct selector *selector, const struct label *labels,
                      uint32_t label_count)
{
    assert(selector != NULL);
    for (uint32_t i = 0; i < selector->count; i++) {
        const struct requirement *requirement = &selector->at[i];
        if (!requirement_holds(requirement, label_find(labels, label_count, requirement->key)))
            return false;
    }
    return true;
}
