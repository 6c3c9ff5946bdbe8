#include "store/postgres/hosts.h"

#include <stdlib.h>
#include <string.h>

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val == NULL ? "" : options->val;
    return "";
}

/* Copies `value` to *at, which moves on, with its commas as ends. Returns how many parts it has. */
static uint32_t split(const char *value, char **at, const char **ret)
{
    uint32_t count = 1;
    char *text = *at;
    size_t len = strlen(value);
    memcpy(text, value, len + 1);
    *at += len + 1;
    ret[0] = text;
    for (; *text != '\0'; text++) {
        if (*text != ',')
            continue;
        *text = '\0';
        if (count < HOSTS_MAX)
            ret[count] = text + 1;
        count++;
    }
    return count;
}

enum error_code hosts_read(struct hosts *hosts, const char *url, struct err *err)
{
    const char *names[HOSTS_MAX] = {NULL};
    const char *addresses[HOSTS_MAX] = {NULL};
    const char *ports[HOSTS_MAX] = {NULL};
    *hosts = (struct hosts){0};
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    if (options == NULL)
        return ERR_OK; /* connecting will say what is wrong */
    const char *name = value_of(options, "host");
    const char *address = value_of(options, "hostaddr");
    const char *port = value_of(options, "port");
    hosts->text = calloc(1, strlen(name) + strlen(address) + strlen(port) + 3);
    if (hosts->text == NULL) {
        PQconninfoFree(options);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    char *at = hosts->text;
    uint32_t named = split(name, &at, names);
    uint32_t addressed = split(address, &at, addresses);
    uint32_t ported = split(port, &at, ports);
    PQconninfoFree(options);
    uint32_t count = named > addressed ? named : addressed;
    bool by_name = named >= addressed;
    bool by_address = addressed >= named;
    bool fits = count > 1 && count <= HOSTS_MAX && (by_name || *names[0] == '\0') &&
                (by_address || *addresses[0] == '\0') && (ported == count || ported == 1);
    hosts->count = fits ? count : 0;
    for (uint32_t i = 0; i < hosts->count; i++)
        hosts->at[i] = (struct connection_host){
            .name = by_name ? names[i] : NULL,
            .address = by_address ? addresses[i] : NULL,
            .port = ports[ported == 1 ? 0 : i],
        };
    return ERR_OK;
}

void hosts_release(struct hosts *hosts)
{
    free(hosts->text);
    *hosts = (struct hosts){0};
}
