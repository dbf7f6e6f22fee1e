/*
 * worker_rt/snapshot: what a snapshot file is beyond safetensors. The public
 * calls are in ddp.h.
 *
 * Its __metadata__ begins with the pair "ddp.header", whose value is the
 * xxh3_128 (32 hexadecimal digits) of the file up to the data, with zeros in
 * the place of these digits. "ddp.data.<tensor>" is that of a tensor's data,
 * "ddp.instance" and "ddp.round" are the fence. So every byte of the file
 * stands under a checksum.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#define SNAPSHOT_HEADER_KEY "ddp.header"
#define SNAPSHOT_DATA_KEY   "ddp.data."

/* What a header begins with, before the checksum's digits; 8 bytes of length
 * stand before it. */
#define SNAPSHOT_BEGIN  "{\"__metadata__\":{\"" SNAPSHOT_HEADER_KEY "\":\""
#define SNAPSHOT_DIGITS 32

#endif
