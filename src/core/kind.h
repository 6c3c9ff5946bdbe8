/* The settings of a kind as operators give them: all at once, or as a change of those there are. */
#ifndef PAWL_CORE_KIND_H
#define PAWL_CORE_KIND_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/spec.h"

/* Reads settings (checked JSON) and checks them; what is not there is not set. A retry policy is
 * read over the usual one for jobs. bad_request and unknown_field name the field. */
enum error_code kind_settings_given(struct str json, struct arena *arena, struct kind_settings *ret,
                                    struct err *err);

/* The settings after a change (checked JSON, RFC 7396): members that it has take the place of those
 * there are, null removes one, and those that it does not have stay. Fails as kind_settings_given.
 */
enum error_code kind_settings_changed(const struct kind_settings *current, struct str change,
                                      struct arena *arena, struct kind_settings *ret,
                                      struct err *err);

#endif
