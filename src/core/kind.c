#include "core/kind.h"

#include "base/json.h"
#include "core/job_state.h"

/* A retry policy comes raw, to be read over the usual one. */
struct given {
    struct kind_settings settings;
    struct str retry;
};

static const struct record_field given_fields[] = {
    RECORD_FIELD(struct given, settings.lease_ttl_ms, "lease_ttl_ms", INT),
    RECORD_FIELD(struct given, settings.heartbeat_ms, "heartbeat_ms", INT),
    RECORD_FIELD(struct given, settings.timeout_ms, "timeout_ms", INT),
    RECORD_FIELD(struct given, retry, "retry", OBJECT),
    RECORD_FIELD(struct given, settings.retention_ms, "retention_ms", INT),
    RECORD_FIELD(struct given, settings.cancel_grace_ms, "cancel_grace_ms", INT),
    RECORD_FIELD(struct given, settings.pin, "pin", BOOL),
};

static const struct record_type given_record = {given_fields,
                                                sizeof given_fields / sizeof given_fields[0]};

enum error_code kind_settings_given(struct str json, struct arena *arena, struct kind_settings *ret,
                                    struct err *err)
{
    struct given given = {0};
    enum error_code code =
        record_read(&given_record, json, RECORD_ALL, RECORD_REQUEST, NULL, arena, &given, err);
    if (code == ERR_OK && str_is_set(given.retry)) {
        given.settings.retry = retry_policy_for_jobs();
        code = record_read(&retry_policy_record, given.retry, RECORD_ALL, RECORD_REQUEST, "retry",
                           arena, &given.settings.retry, err);
    }
    if (code == ERR_OK)
        code = kind_settings_check(&given.settings, err);
    if (code == ERR_OK)
        *ret = given.settings;
    return code;
}

enum error_code kind_settings_changed(const struct kind_settings *current, struct str change,
                                      struct arena *arena, struct kind_settings *ret,
                                      struct err *err)
{
    struct kind_settings before = *current;
    struct buf buf;
    struct str merged;
    before.version = 0; /* not for a change to say */
    buf_init(&buf, arena, 256);
    kind_settings_write(&before, &buf);
    enum error_code code =
        buf.failed ? ERR_NO_MEMORY : json_merge_patch(buf_str(&buf), change, arena, &merged);
    if (code != ERR_OK)
        return err_set(err, code, "out of memory");
    return kind_settings_given(merged, arena, ret, err);
}
