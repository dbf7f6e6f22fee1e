#include "rendezvous/ctl/document.h"

#include <stdlib.h>
#include <string.h>

/* cJSON takes some hundred bytes for each value, however short it is. */
#define VALUES_MAX 4000000

cJSON *ctl_document_parse(const char *json, size_t len, struct ddp_err *err)
{
    size_t values = 0;
    const char *end = NULL;
    for (size_t i = 0; i < len; i++)
        values += json[i] == ',' || json[i] == '[' || json[i] == '{';
    cJSON *status = values > VALUES_MAX
                        ? NULL
                        : cJSON_ParseWithLengthOpts(json, len, &end, 0);
    if (cJSON_IsObject(status) &&
        cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(status, "runs")))
        return status;
    cJSON_Delete(status);
    ddp_err_set(err, DDP_E_PROTO,
                "the answer is not the status of a ddprun rendezvous");
    return NULL;
}

/* Lines and tabs are the printer's own: in texts they are escaped. */
int ctl_document_json(const struct ctl_style *style,
                      const cJSON *status,
                      FILE *f)
{
    char *json = cJSON_Print(status);
    if (json == NULL)
        return -1;
    for (char *save, *at = strtok_r(json, "\n", &save); at != NULL;
         at = strtok_r(NULL, "\n", &save)) {
        size_t tabs = strspn(at, "\t");
        size_t size = strlen(at) + 1;
        char *clean = malloc(size);
        if (clean == NULL)
            break;
        for (char *p = at + tabs; (p = strchr(p, '\t')) != NULL;)
            *p = ' '; /* behind a name */
        ctl_clean(style, at + tabs, clean, size);
        fprintf(f, "%*s%s\n", (int)(2 * tabs), "", clean);
        free(clean);
    }
    cJSON_free(json);
    return 0;
}
