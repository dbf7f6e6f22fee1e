#include "rendezvous/account/account_json.h"

#include "rendezvous/base/mono.h"

void account_json_parts(struct json *j, const struct goodput_parts *parts)
{
    json_micros(j, "ran_s", parts->ran_us);
    json_micros(j, "waited_s", parts->waited_us);
    json_micros(j, "detect_s", parts->detect_us);
    json_micros(j, "restart_s", parts->restart_us);
}

static void write_goodput(struct json *j,
                          const struct goodput_parts *parts,
                          bool knows_start,
                          const char *phase)
{
    int64_t wall_us = goodput_wall_us(parts);
    json_open(j, "goodput", '{');
    json_micros(j, "wall_s", wall_us);
    account_json_parts(j, parts);
    if (wall_us > 0)
        json_micros(j, "share",
                    (int64_t)(goodput_share(parts) * (double)MONO_S));
    json_bool(j, "knows_start", knows_start);
    if (phase[0] != '\0')
        json_text(j, "phase", phase);
    if (parts->repeated_steps > 0) {
        json_int(j, "repeated_steps", parts->repeated_steps);
        json_micros(j, "repeated_s", parts->repeated_us);
    }
    json_close(j, '}');
}

void account_json(struct json *j, const struct account *a, int64_t now_us)
{
    const struct goodput_parts parts = account_goodput(a, now_us);
    write_goodput(j, &parts, account_knows_start(a),
                  goodput_grows(&a->goodput));
}

void account_json_sums(struct json *j, const struct goodput_sums *sums)
{
    write_goodput(j, &sums->parts, sums->steps > 0, "");
}
