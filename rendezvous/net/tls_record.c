/*
 * A record: head (type 23, version 3.3, length), then the sealed text with its
 * true type behind it, then the tag. The head is authenticated along; the nonce
 * is the direction's iv, of which the last eight bytes are XORed with the
 * record's number (RFC 8446, 5.2 and 5.3).
 *
 * Failure modes: a record that was changed, left out, repeated or moved does
 * not open, and the connection ends there. Numbers cannot come again: a key is
 * worn out long before.
 */
#include "rendezvous/net/tls_record.h"

#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/net/openssl.h"

#define TAG_LEN    16u
#define BLOCK_LEN  16u
#define BLOCKS_MAX (UINT64_C(1) << 34)
#define SEALED_MIN (TAG_LEN + 1)

/* -- keys ------------------------------------------------------------------ */

/* HKDF-Expand-Label (RFC 8446, 7.1) without a context; `len` is no more than
 * one block of SHA-256. */
static int expand(const uint8_t secret[RECORD_SECRET_LEN],
                  const char *label,
                  uint8_t *out,
                  size_t len)
{
    uint8_t info[32];
    uint8_t block[EVP_MAX_MD_SIZE];
    unsigned block_len = 0;
    size_t n = 0;
    size_t label_len = strlen(label);
    ddp_assert(label_len + 11 <= sizeof(info));
    info[n++] = 0;
    info[n++] = (uint8_t)len;
    info[n++] = (uint8_t)(6 + label_len);
    memcpy(info + n, "tls13 ", 6);
    memcpy(info + n + 6, label, label_len);
    n += 6 + label_len;
    info[n++] = 0; /* the context's length */
    info[n++] = 1; /* of HKDF-Expand: the first block */
    if (ossl.f_HMAC(ossl.f_EVP_sha256(), secret, (int)RECORD_SECRET_LEN, info,
                    n, block, &block_len) == NULL ||
        block_len < len)
        return -1;
    memcpy(out, block, len);
    explicit_bzero(block, sizeof(block));
    return 0;
}

int record_begin(struct record_way *w, const uint8_t secret[RECORD_SECRET_LEN])
{
    *w = (struct record_way){.count = 0};
    return expand(secret, "key", w->key, sizeof(w->key)) == 0 &&
                   expand(secret, "iv", w->iv, sizeof(w->iv)) == 0
               ? 0
               : -1;
}

/* -- the cipher ------------------------------------------------------------ */

/* Takes what `len` bytes of text wear off the key. */
static int wear(struct record_way *w, size_t len)
{
    w->blocks += len / BLOCK_LEN + 2;
    return w->blocks <= BLOCKS_MAX ? 0 : -1;
}

/* One of each direction for all connections: a key is set in far less time than
 * it takes to read it from memory that ten thousand contexts would need. */
static EVP_CIPHER_CTX *both[2];

void record_forget(void)
{
    for (int i = 0; i < 2; i++) {
        if (both[i] != NULL)
            ossl.f_EVP_CIPHER_CTX_free(both[i]); /* which wipes it */
        both[i] = NULL;
    }
}

static EVP_CIPHER_CTX *begin(struct record_way *w, int seals)
{
    EVP_CIPHER_CTX **cipher = &both[seals];
    uint8_t nonce[sizeof(w->iv)];
    if (*cipher == NULL) {
        *cipher = ossl.f_EVP_CIPHER_CTX_new();
        if (*cipher == NULL ||
            ossl.f_EVP_CipherInit_ex(*cipher, ossl.f_EVP_aes_128_gcm(), NULL,
                                     NULL, NULL, seals) != 1) {
            ossl.f_EVP_CIPHER_CTX_free(*cipher);
            *cipher = NULL;
            return NULL;
        }
    }
    memcpy(nonce, w->iv, sizeof(nonce));
    for (size_t i = 0; i < 8; i++)
        nonce[sizeof(nonce) - 1 - i] ^= (uint8_t)(w->count >> (8 * i));
    w->count++;
    return ossl.f_EVP_CipherInit_ex(*cipher, NULL, NULL, w->key, nonce,
                                    seals) == 1
               ? *cipher
               : NULL;
}

static int seal_one(struct record_way *w,
                    uint8_t type,
                    const uint8_t *text,
                    size_t len,
                    struct buf *out)
{
    size_t sealed = len + 1 + TAG_LEN;
    uint8_t *at = buf_reserve(out, RECORD_HEAD_LEN + sealed);
    EVP_CIPHER_CTX *c = at != NULL && wear(w, len) == 0 ? begin(w, 1) : NULL;
    int n;
    if (c == NULL)
        return -1;
    memcpy(at, (const uint8_t[]){RECORD_DATA, 3, 3}, 3);
    at[3] = (uint8_t)(sealed >> 8);
    at[4] = (uint8_t)sealed;
    uint8_t *body = at + RECORD_HEAD_LEN;
    if (ossl.f_EVP_CipherUpdate(c, NULL, &n, at, (int)RECORD_HEAD_LEN) != 1 ||
        (len > 0 &&
         ossl.f_EVP_CipherUpdate(c, body, &n, text, (int)len) != 1) ||
        ossl.f_EVP_CipherUpdate(c, body + len, &n, &type, 1) != 1 ||
        ossl.f_EVP_CipherFinal_ex(c, body + len + 1, &n) != 1 ||
        ossl.f_EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, (int)TAG_LEN,
                                   body + len + 1) != 1)
        return -1;
    buf_commit(out, RECORD_HEAD_LEN + sealed);
    return 0;
}

int record_seal(struct record_way *w,
                enum record_type type,
                const uint8_t *text,
                size_t len,
                struct buf *out)
{
    while (len > 0) {
        size_t n = len < RECORD_DATA_MAX ? len : RECORD_DATA_MAX;
        if (seal_one(w, (uint8_t)type, text, n, out) != 0)
            return -1;
        text += n;
        len -= n;
    }
    return 0;
}

size_t record_len(const uint8_t *head)
{
    size_t sealed = (size_t)head[3] << 8 | head[4];
    if (head[0] != RECORD_DATA || head[1] != 3 || head[2] != 3 ||
        sealed < SEALED_MIN || RECORD_HEAD_LEN + sealed > RECORD_MAX)
        return 0;
    return RECORD_HEAD_LEN + sealed;
}

/* The type is the last byte that is not 0; behind it lies padding. */
static int strip(const uint8_t *text, size_t len, uint8_t *type)
{
    while (len > 0 && text[len - 1] == 0)
        len--;
    if (len == 0 || len - 1 > RECORD_DATA_MAX)
        return -1;
    *type = text[len - 1];
    return (int)(len - 1);
}

int record_open(struct record_way *w,
                const uint8_t *record,
                size_t len,
                uint8_t *text,
                uint8_t *type)
{
    static uint8_t plain[RECORD_MAX];
    size_t sealed = len - RECORD_HEAD_LEN - TAG_LEN;
    const uint8_t *body = record + RECORD_HEAD_LEN;
    uint8_t tag[TAG_LEN];
    int n;
    ddp_assert(len >= RECORD_HEAD_LEN + SEALED_MIN && len <= RECORD_MAX);
    memcpy(tag, body + sealed, sizeof(tag));
    EVP_CIPHER_CTX *c = wear(w, sealed) == 0 ? begin(w, 0) : NULL;
    int rc = -1;
    if (c != NULL &&
        ossl.f_EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, (int)TAG_LEN,
                                   tag) == 1 &&
        ossl.f_EVP_CipherUpdate(c, NULL, &n, record, (int)RECORD_HEAD_LEN) ==
            1 &&
        ossl.f_EVP_CipherUpdate(c, plain, &n, body, (int)sealed) == 1 &&
        ossl.f_EVP_CipherFinal_ex(c, plain + sealed, &n) == 1)
        rc = strip(plain, sealed, type);
    if (rc > 0)
        memcpy(text, plain, (size_t)rc);
    explicit_bzero(plain, sealed);
    return rc;
}
