#include "server/otlp.h"

#include <assert.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/utf8.h"
#include "pawl.h"
#include "server/backlog.h"
#include "server/pool.h"

enum {
    BACKLOG_DEFAULT = 4 * 1024 * 1024,
    SPANS_AT_ONCE = 512, /* in one request */
    GATHER_MS = 1000,    /* how long a span waits for others */
    TIMEOUT_MS_DEFAULT = 10 * 1000,
    TRIES_MAX = 5, /* of one request */
    PAUSE_MS_FIRST = 250,
    PAUSE_MS_MAX = 10 * 1000,
    SPAN_BYTES = 1024,
    ANSWER_BYTES_MAX = 64 * 1024,
};

struct otlp {
    struct arena arena; /* of the options */
    struct otlp_options options;
    struct backlog *backlog;
    unsigned long sender;
    CURL *easy;
    struct curl_slist *headers;
    size_t answer_bytes; /* of the collector, to the request that is under way */
    bool away;           /* the collector did not answer when it was last asked */
    _Atomic(uint64_t) exported;
    _Atomic(uint64_t) failed;
    _Atomic(int64_t) until; /* when sending is to end, on the steady clock; 0: not yet known */
};

/* ---- spans that wait ---- */

/* In the backlog a span is the struct, then its texts. */
void otlp_put(struct otlp *otlp, const struct span *span)
{
    struct str parts[1 + SPAN_TEXT_COUNT];
    parts[0] = (struct str){(const char *)span, sizeof *span};
    for (int i = 0; i < SPAN_TEXT_COUNT; i++)
        parts[1 + i] = span->texts[i];
    (void)backlog_put(otlp->backlog, parts, sizeof parts / sizeof parts[0]);
}

bool span_read(struct str record, struct span *ret)
{
    if (record.len < sizeof *ret)
        return false;
    memcpy(ret, record.at, sizeof *ret);
    const char *at = record.at + sizeof *ret;
    for (int i = 0; i < SPAN_TEXT_COUNT; i++) {
        if (str_is_set(ret->texts[i]))
            ret->texts[i].at = at;
        at += ret->texts[i].len;
    }
    return at <= record.at + record.len;
}

static void take(void *arg, const struct span *span)
{
    otlp_put(arg, span);
}

void otlp_committed(struct otlp *otlp, const struct batch_report *report)
{
    const struct span_taker taker = {.take = take, .arg = otlp};
    if (otlp == NULL)
        return;
    for (uint32_t i = 0; i < report->change_count; i++)
        trace_change(&report->changes[i], &taker);
}

struct otlp_counts otlp_counts(struct otlp *otlp)
{
    if (otlp == NULL)
        return (struct otlp_counts){0};
    return (struct otlp_counts){
        .exported = atomic_load(&otlp->exported),
        .dropped = backlog_dropped(otlp->backlog),
        .failed = atomic_load(&otlp->failed),
    };
}

/* ---- OTLP's JSON ---- */

static void put_text_attribute(struct json_writer *writer, struct str key, struct str value)
{
    json_begin_object(writer);
    json_key(writer, STR("key"));
    json_put_string(writer, key);
    json_key(writer, STR("value"));
    json_begin_object(writer);
    json_key(writer, STR("stringValue"));
    json_put_string(writer, value);
    json_end_object(writer);
    json_end_object(writer);
}

/* A 64-bit number is a string in the JSON form of protobuf. */
static struct str number_text(int64_t number, char *ret, size_t size)
{
    int len = snprintf(ret, size, "%lld", (long long)number);
    return (struct str){ret, (size_t)len};
}

static void put_number_attribute(struct json_writer *writer, struct str key, int64_t value)
{
    char text[24];
    json_begin_object(writer);
    json_key(writer, STR("key"));
    json_put_string(writer, key);
    json_key(writer, STR("value"));
    json_begin_object(writer);
    json_key(writer, STR("intValue"));
    json_put_string(writer, number_text(value, text, sizeof text));
    json_end_object(writer);
    json_end_object(writer);
}

static void put_attributes(struct json_writer *writer, const struct span *span)
{
    char id[UUID_TEXT_LEN];
    uuid_format(span->job, id);
    json_key(writer, STR("attributes"));
    json_begin_array(writer);
    put_text_attribute(writer, STR("pawl.job.id"), (struct str){id, sizeof id});
    put_number_attribute(writer, STR("pawl.epoch"), span->epoch);
    if (span->attempt > 0)
        put_number_attribute(writer, STR("pawl.attempt"), span->attempt);
    for (int i = 0; i < SPAN_TEXT_COUNT; i++)
        if (str_is_set(span->texts[i]) && utf8_valid(span->texts[i]))
            put_text_attribute(writer, span_text_name((enum span_text)i), span->texts[i]);
    json_end_array(writer);
}

static void put_name(struct json_writer *writer, const struct span *span)
{
    char name[2 * NAME_BYTES_MAX];
    struct str of = span->of < SPAN_TEXT_COUNT ? span->texts[span->of] : (struct str){NULL, 0};
    int len = snprintf(name, sizeof name, str_is_set(of) ? "%.*s %.*s" : "%.*s%.*s",
                       STR_ARG(span->name), STR_ARG(of));
    struct str text = {name, (size_t)len < sizeof name ? (size_t)len : sizeof name - 1};
    json_key(writer, STR("name"));
    json_put_string(writer, utf8_valid(text) ? text : span->name);
}

static void put_nanoseconds(struct json_writer *writer, struct str key, int64_t ms)
{
    char text[32];
    int len = snprintf(text, sizeof text, ms > 0 ? "%lld000000" : "0", (long long)ms);
    json_key(writer, key);
    json_put_string(writer, (struct str){text, (size_t)len});
}

static void put_status(struct json_writer *writer, const struct span *span)
{
    enum { STATUS_ERROR = 2 };
    json_key(writer, STR("status"));
    json_begin_object(writer);
    if (str_is_set(span->texts[SPAN_ERROR])) {
        json_key(writer, STR("code"));
        json_put_int(writer, STATUS_ERROR);
        json_key(writer, STR("message"));
        json_put_string(writer, span->texts[SPAN_ERROR]);
    }
    json_end_object(writer);
}

static void put_span(struct json_writer *writer, const struct span *span)
{
    static const uint8_t none[SPAN_ID_LEN];
    json_begin_object(writer);
    json_key(writer, STR("traceId"));
    json_put_hex(writer, span->context.trace_id, TRACE_ID_LEN);
    json_key(writer, STR("spanId"));
    json_put_hex(writer, span->context.span_id, SPAN_ID_LEN);
    if (memcmp(span->parent_id, none, SPAN_ID_LEN) != 0) {
        json_key(writer, STR("parentSpanId"));
        json_put_hex(writer, span->parent_id, SPAN_ID_LEN);
    }
    json_key(writer, STR("flags"));
    json_put_int(writer, span->context.flags);
    put_name(writer, span);
    json_key(writer, STR("kind"));
    json_put_int(writer, (int64_t)span->kind);
    put_nanoseconds(writer, STR("startTimeUnixNano"), span->start_ms);
    put_nanoseconds(writer, STR("endTimeUnixNano"), span->end_ms);
    put_attributes(writer, span);
    put_status(writer, span);
    json_end_object(writer);
}

void otlp_write_span(const struct span *span, struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    put_span(&writer, span);
}

/* Opens everything around the spans. */
static void begin_request(const struct otlp *otlp, struct json_writer *writer)
{
    json_begin_object(writer);
    json_key(writer, STR("resourceSpans"));
    json_begin_array(writer);
    json_begin_object(writer);
    json_key(writer, STR("resource"));
    json_begin_object(writer);
    json_key(writer, STR("attributes"));
    json_begin_array(writer);
    put_text_attribute(writer, STR("service.name"), otlp->options.service);
    if (str_is_set(otlp->options.instance))
        put_text_attribute(writer, STR("service.instance.id"), otlp->options.instance);
    put_text_attribute(writer, STR("service.version"), STR(PAWL_VERSION));
    json_end_array(writer);
    json_end_object(writer);
    json_key(writer, STR("scopeSpans"));
    json_begin_array(writer);
    json_begin_object(writer);
    json_key(writer, STR("scope"));
    json_begin_object(writer);
    json_key(writer, STR("name"));
    json_put_string(writer, STR("pawl"));
    json_key(writer, STR("version"));
    json_put_string(writer, STR(PAWL_VERSION));
    json_end_object(writer);
    json_key(writer, STR("spans"));
    json_begin_array(writer);
}

static void end_request(struct json_writer *writer)
{
    json_end_array(writer);
    json_end_object(writer);
    json_end_array(writer);
    json_end_object(writer);
    json_end_array(writer);
    json_end_object(writer);
}

/* ---- sending ---- */

static bool is_over(const struct otlp *otlp)
{
    int64_t until = atomic_load(&otlp->until);
    return until > 0 && clock_monotonic_ms() >= until;
}

/* The collector's answer is of no use; of one that does not end the rest is left unread. */
static size_t ignore(char *data, size_t size, size_t count, void *arg) /* NOLINT: curl's type */
{
    struct otlp *otlp = arg;
    (void)data;
    otlp->answer_bytes += size * count;
    return otlp->answer_bytes <= ANSWER_BYTES_MAX ? size * count : 0;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t sent_total,
                       curl_off_t sent)
{
    (void)total, (void)now, (void)sent_total, (void)sent;
    return is_over(arg) ? 1 : 0;
}

static bool set_up(struct otlp *otlp)
{
    const struct otlp_options *options = &otlp->options;
    CURL *easy = otlp->easy;
    CURLcode code = CURLE_OK;
#define SET(option, value)                                                                         \
    do {                                                                                           \
        if (code == CURLE_OK)                                                                      \
            code = curl_easy_setopt(easy, option, value);                                          \
    } while (0)
    SET(CURLOPT_URL, options->endpoint.at);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "pawl/" PAWL_VERSION);
    SET(CURLOPT_HTTPHEADER, otlp->headers);
    SET(CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
    SET(CURLOPT_WRITEFUNCTION, ignore);
    SET(CURLOPT_WRITEDATA, otlp);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, otlp);
    if (str_is_set(options->ca_file))
        SET(CURLOPT_CAINFO, options->ca_file.at);
#undef SET
    return code == CURLE_OK;
}

/* What came of a request. */
enum reply { REPLY_TAKEN, REPLY_REFUSED, REPLY_LATER };

static enum reply ask_once(struct otlp *otlp, struct str body, int64_t *ret_pause_ms)
{
    long status = 0;
    curl_off_t wait_s = 0;
    CURL *easy = otlp->easy;
    if (curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.at) != CURLE_OK)
        return REPLY_REFUSED;
    otlp->answer_bytes = 0;
    /* Its status is known when so much of an answer has come. */
    if (curl_easy_perform(easy) != CURLE_OK && otlp->answer_bytes <= ANSWER_BYTES_MAX)
        return REPLY_LATER;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &wait_s);
    if (wait_s > 0)
        *ret_pause_ms = wait_s < PAUSE_MS_MAX / 1000 ? (int64_t)wait_s * 1000 : PAUSE_MS_MAX;
    if (status >= 200 && status < 300)
        return REPLY_TAKEN;
    return status == 429 || (status >= 502 && status <= 504) ? REPLY_LATER : REPLY_REFUSED;
}

/* Says once that the collector is away, and once that it is back. */
static void note(struct otlp *otlp, enum reply reply)
{
    bool away = reply != REPLY_TAKEN;
    if (away == otlp->away)
        return;
    otlp->away = away;
    if (away)
        log_fact(otlp->options.log, LOG_WARN, STR("traces_refused"),
                 reply == REPLY_REFUSED ? STR("the trace collector rejects spans")
                                        : STR("the trace collector is unreachable"));
    else
        log_fact(otlp->options.log, LOG_INFO, STR("traces_taken"),
                 STR("the trace collector is reachable again"));
}

static void send_spans(struct otlp *otlp, struct str body, uint32_t count)
{
    int64_t pause_ms = PAUSE_MS_FIRST;
    enum reply reply = REPLY_LATER;
    for (int tries = 0; tries < TRIES_MAX && reply == REPLY_LATER && !is_over(otlp); tries++) {
        int64_t wanted_ms = 0;
        if (tries > 0) {
            /* Somebody who wants to end waits for no pause. */
            backlog_rest(otlp->backlog, pause_ms);
            pause_ms *= 2;
        }
        reply = ask_once(otlp, body, &wanted_ms);
        note(otlp, reply);
        if (wanted_ms > pause_ms)
            pause_ms = wanted_ms;
        /* On the way out there is one try. */
        if (atomic_load(&otlp->until) > 0)
            break;
    }
    (void)atomic_fetch_add(reply == REPLY_TAKEN ? &otlp->exported : &otlp->failed, count);
}

/* Sends a batch, some hundred spans at a time. */
static void send_batch(struct otlp *otlp, struct backlog_batch *batch, struct arena *arena)
{
    struct str record;
    while (batch->count > 0) {
        struct json_writer writer;
        struct buf body;
        struct span span;
        uint32_t count = 0;
        arena_clear(arena);
        buf_init(&body, arena, (size_t)SPANS_AT_ONCE * SPAN_BYTES);
        json_writer_init(&writer, &body);
        begin_request(otlp, &writer);
        while (count < SPANS_AT_ONCE && backlog_next(batch, &record)) {
            if (span_read(record, &span))
                put_span(&writer, &span);
            count++;
        }
        end_request(&writer);
        if (body.failed)
            (void)atomic_fetch_add(&otlp->failed, count);
        else
            send_spans(otlp, buf_str(&body), count);
    }
}

static void *run(void *arg)
{
    struct otlp *otlp = arg;
    struct backlog_batch batch;
    struct arena arena;
    arena_init(&arena);
    do {
        backlog_take(otlp->backlog, GATHER_MS, &batch);
        send_batch(otlp, &batch, &arena);
    } while (!batch.closed);
    arena_release(&arena);
    return NULL;
}

/* ---- options ---- */

/* Adds "name=value" as a header; its value is percent-encoded. False: invalid, or there is no
 * memory. */
static bool add_header(struct otlp *otlp, struct str pair)
{
    char line[4096];
    size_t len = 0;
    bool named = false;
    pair = json_trim(pair);
    if (pair.len == 0)
        return true;
    for (size_t i = 0; i < pair.len && len < sizeof line - 3; i++) {
        char c = pair.at[i];
        if (c == '%' && named && i + 2 < pair.len && hex_value(pair.at[i + 1]) >= 0 &&
            hex_value(pair.at[i + 2]) >= 0) {
            c = (char)(hex_value(pair.at[i + 1]) * 16 + hex_value(pair.at[i + 2]));
            i += 2;
        } else if (c == '=' && !named) {
            named = i > 0;
            line[len++] = ':';
            c = ' ';
        }
        if ((unsigned char)c < ' ' || c == 0x7f || (!named && (c == ':' || c == ' ')))
            return false;
        line[len++] = c;
    }
    line[len] = '\0';
    struct curl_slist *longer = named ? curl_slist_append(otlp->headers, line) : NULL;
    if (longer != NULL)
        otlp->headers = longer;
    return longer != NULL;
}

static enum error_code read_headers(struct otlp *otlp, struct err *err)
{
    struct str rest = otlp->options.headers;
    otlp->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (otlp->headers == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    struct str pair;
    while (str_take(&rest, ',', &pair))
        /* What is wrong is not shown: it may be a secret. */
        if (!add_header(otlp, pair))
            return err_set(err, ERR_BAD_REQUEST,
                           "trace headers must be name=value, separated by commas");
    return ERR_OK;
}

/* A copy that ends with NUL. */
static struct str keep(struct otlp *otlp, struct str text)
{
    if (!str_is_set(text))
        return text;
    char *copy = arena_alloc(&otlp->arena, text.len + 1);
    if (copy == NULL)
        return (struct str){NULL, 0};
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    return (struct str){copy, text.len};
}

static bool is_http(struct str url)
{
    return (url.len > 7 && memcmp(url.at, "http://", 7) == 0) ||
           (url.len > 8 && memcmp(url.at, "https://", 8) == 0);
}

static enum error_code copy_options(struct otlp *otlp, const struct otlp_options *options,
                                    struct err *err)
{
    struct otlp_options *copy = &otlp->options;
    *copy = *options;
    copy->endpoint = keep(otlp, options->endpoint);
    copy->headers = keep(otlp, options->headers);
    copy->ca_file = keep(otlp, options->ca_file);
    copy->instance = keep(otlp, options->instance);
    copy->service = keep(otlp, str_is_set(options->service) ? options->service : STR("pawl"));
    if (copy->timeout_ms <= 0)
        copy->timeout_ms = TIMEOUT_MS_DEFAULT;
    if (!str_is_set(copy->endpoint) || !str_is_set(copy->service) ||
        str_is_set(options->headers) != str_is_set(copy->headers) ||
        str_is_set(options->ca_file) != str_is_set(copy->ca_file))
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (!is_http(copy->endpoint) || !utf8_valid(copy->service))
        return err_set(
            err, ERR_BAD_REQUEST,
            "invalid trace endpoint \"%.*s\": use a URL such as http://127.0.0.1:4318/v1/traces",
            STR_ARG(copy->endpoint));
    return read_headers(otlp, err);
}

static void free_all(struct otlp *otlp)
{
    if (otlp->easy != NULL)
        curl_easy_cleanup(otlp->easy);
    curl_slist_free_all(otlp->headers);
    backlog_free(otlp->backlog);
    arena_release(&otlp->arena);
    free(otlp);
}

enum error_code otlp_open(const struct otlp_options *options, struct otlp **ret, struct err *err)
{
    struct otlp *otlp = calloc(1, sizeof *otlp);
    if (otlp == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    arena_init(&otlp->arena);
    enum error_code code = copy_options(otlp, options, err);
    if (code == ERR_OK) {
        otlp->backlog = backlog_new(
            options->backlog_bytes > 0 ? options->backlog_bytes : BACKLOG_DEFAULT, SPANS_AT_ONCE);
        otlp->easy = curl_easy_init();
        if (otlp->backlog == NULL || otlp->easy == NULL || !set_up(otlp) ||
            !pool_start_thread(run, otlp, &otlp->sender))
            code = err_set(err, ERR_UNAVAILABLE, "out of memory or threads");
    }
    if (code != ERR_OK) {
        free_all(otlp);
        return code;
    }
    *ret = otlp;
    return ERR_OK;
}

void otlp_close(struct otlp *otlp, int64_t wait_ms)
{
    if (otlp == NULL)
        return;
    atomic_store(&otlp->until, clock_monotonic_ms() + (wait_ms > 0 ? wait_ms : 1));
    backlog_close(otlp->backlog);
    (void)pthread_join(otlp->sender, NULL);
    free_all(otlp);
}
