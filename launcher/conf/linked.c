/*
 * elf(5). Happy path: the header tells where the program headers are, one of
 * these where the dynamic section is, and that one has an offset into a table
 * of texts for each library. The table is told by its address in memory, which
 * another program header (PT_LOAD) turns into a place in the file.
 *
 * Failure modes: all numbers are the file's, and any may be wrong. Each place
 * is checked as it is read (read_at), each count is bounded, and what does not
 * fit ends the search; a library whose name cannot be had is left out. A short
 * read or an interrupted one is not tried again: nobody misses a hint.
 */
#include "launcher/conf/linked.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADERS_MAX 64  /* program headers that are looked at */
#define DYNAMIC_MAX 512 /* entries of the dynamic section */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OWN_ORDER ELFDATA2LSB
#else
#define OWN_ORDER ELFDATA2MSB
#endif

/* What a file says of its libraries. */
struct elf_file {
    int fd;
    Elf64_Phdr headers[HEADERS_MAX];
    int headers_len;
    Elf64_Dyn dynamic[DYNAMIC_MAX];
    int dynamic_len;
    uint64_t texts; /* where the table of texts is in the file */
    uint64_t texts_len;
};

/* All of it, from `offset` behind `base` on. */
static bool
read_at(int fd, uint64_t base, uint64_t offset, void *to, size_t len)
{
    if (base > INT64_MAX || offset > INT64_MAX - base)
        return false;
    return pread(fd, to, len, (off_t)(base + offset)) == (ssize_t)len;
}

static bool read_headers(struct elf_file *f)
{
    Elf64_Ehdr head;
    if (!read_at(f->fd, 0, 0, &head, sizeof(head)) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != OWN_ORDER ||
        head.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    f->headers_len = head.e_phnum < HEADERS_MAX ? head.e_phnum : HEADERS_MAX;
    return read_at(f->fd, head.e_phoff, 0, f->headers,
                   (size_t)f->headers_len * sizeof(f->headers[0]));
}

/* False: it is linked statically. */
static bool read_dynamic(struct elf_file *f)
{
    const Elf64_Phdr *h = f->headers, *end = h + f->headers_len;
    while (h < end && h->p_type != PT_DYNAMIC)
        h++;
    if (h == end)
        return false;
    uint64_t n = h->p_filesz / sizeof(f->dynamic[0]);
    f->dynamic_len = n < DYNAMIC_MAX ? (int)n : DYNAMIC_MAX;
    if (!read_at(f->fd, h->p_offset, 0, f->dynamic,
                 (size_t)f->dynamic_len * sizeof(f->dynamic[0])))
        return false;
    int used = 0;
    while (used < f->dynamic_len && f->dynamic[used].d_tag != DT_NULL)
        used++;
    f->dynamic_len = used;
    return true;
}

/* False: there is no such entry. */
static bool find_entry(const struct elf_file *f, int64_t tag, uint64_t *value)
{
    for (int i = 0; i < f->dynamic_len; i++)
        if (f->dynamic[i].d_tag == tag) {
            *value = f->dynamic[i].d_un.d_val;
            return true;
        }
    return false;
}

static bool find_texts(struct elf_file *f)
{
    uint64_t at;
    if (!find_entry(f, DT_STRTAB, &at) ||
        !find_entry(f, DT_STRSZ, &f->texts_len))
        return false;
    for (int i = 0; i < f->headers_len; i++) {
        const Elf64_Phdr *h = &f->headers[i];
        if (h->p_type != PT_LOAD || at < h->p_vaddr ||
            at - h->p_vaddr >= h->p_filesz)
            continue;
        f->texts = h->p_offset + (at - h->p_vaddr); /* may wrap: as any place */
        return true;
    }
    return false;
}

/* The text at that offset of the table; false: a longer one, or none. */
static bool
read_text(const struct elf_file *f, uint64_t offset, char text[LINKED_NAME_MAX])
{
    size_t len = LINKED_NAME_MAX;
    if (offset >= f->texts_len)
        return false;
    if (f->texts_len - offset < len)
        len = (size_t)(f->texts_len - offset);
    return read_at(f->fd, f->texts, offset, text, len) &&
           memchr(text, '\0', len) != NULL;
}

/* MPICH's and its kin's, and Open MPI's; also those of C++ and Fortran, which a
 * program may name alone. */
static bool is_mpi(const char *text)
{
    static const char *const begins[] = {"libmpi.so", "libmpi_", "libmpich",
                                         "libmpifort.so", "libmpicxx.so"};
    const char *slash = strrchr(text, '/');
    const char *name = slash != NULL ? slash + 1 : text;
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

static bool find_mpi(struct elf_file *f, char name[LINKED_NAME_MAX])
{
    if (!read_headers(f) || !read_dynamic(f) || !find_texts(f))
        return false;
    for (int i = 0; i < f->dynamic_len; i++)
        if (f->dynamic[i].d_tag == DT_NEEDED &&
            read_text(f, f->dynamic[i].d_un.d_val, name) && is_mpi(name))
            return true;
    return false;
}

bool linked_mpi(const char *path, char name[LINKED_NAME_MAX])
{
    struct elf_file f;
    struct stat st;
    bool found = false;
    /* What turns out to be a FIFO or a terminal is not waited for. */
    f.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f.fd >= 0 && fstat(f.fd, &st) == 0 && S_ISREG(st.st_mode))
        found = find_mpi(&f, name);
    if (f.fd >= 0)
        (void)close(f.fd); /* read side, nothing to lose */
    if (!found)
        name[0] = '\0';
    return found;
}
