/* A fake of NVIDIA's decoder library: "decodes" the pictures of a file, whatever the stream is.
 *
 * FAKE_NVCUVID_FRAMES names a file of NV12 pictures of 320 x 192 pixels, tightly packed. Mapped pictures are memory of the
 * CUDA driver or simulator that the process has loaded, with padding after each row. Fails for wrong parameters, without a
 * current context, and if more pictures are mapped than the decoder was created for. Prints the number of calls at the end.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { WIDTH = 320, HEIGHT = 192, ROWS = HEIGHT * 3 / 2, PITCH = 512, SURFACES = 4 };
enum { SUCCESS = 0, INVALID_VALUE = 1, H264 = 4, CHROMA_420 = 1, NV12 = 0, END_OF_STREAM = 1, DECODED = 2 };

struct caps {
    uint32_t codec, chroma, depth_minus_8, reserved[3];
    uint8_t supported, engines;
    uint16_t formats;
    uint32_t max_width, max_height;
};

struct sequence {
    uint32_t codec, rate[2];
    uint8_t progressive, depths[2], min_surfaces;
    uint32_t coded[2];
    int32_t display[4];
    uint32_t chroma, rest[5];
};

struct decoder_info {
    unsigned long width, height, surfaces;
    uint32_t codec, chroma;
    unsigned long flags, depth, intra, max_width, max_height, reserved;
    int16_t display[4];
    uint32_t format, deinterlace;
    unsigned long target_width, target_height, outputs;
};

struct shown {
    int32_t index, progressive, top_first, repeat;
    int64_t timestamp;
};

struct parser_params {
    uint32_t codec, surfaces, clock, threshold, delay, annex_b, reserved[4];
    void *user;
    int (*on_sequence)(void *, struct sequence *), (*on_decode)(void *, void *), (*on_display)(void *, struct shown *);
};

struct packet {
    unsigned long flags, size;
    const uint8_t *bytes;
};

struct map_params {
    int32_t progressive, second, top_first, unpaired;
    uint32_t reserved[2];
    uint64_t input;
    uint32_t input_layout[2];
    uint64_t output;
    uint32_t output_pitch, reserved2;
    void *stream;
};

static struct parser_params parser;
static struct decoder_info decoder;
static FILE *frames;
static uint8_t surfaces[SURFACES][ROWS][WIDTH];
static int created, decoded, mapped, unmapped;

static int cuda(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*function)(uint64_t, uint64_t, uint64_t) = library ? (int (*)(uint64_t, uint64_t, uint64_t))dlsym(library, name) : NULL;
    return function ? function(a, b, c) : INVALID_VALUE;
}

EXPORT int cuvidGetDecoderCaps(struct caps *caps)
{
    if (caps->codec != H264 || caps->chroma != CHROMA_420 || caps->depth_minus_8 != 0)
        return INVALID_VALUE;
    caps->supported = getenv("FAKE_NVCUVID_FRAMES") != NULL;
    caps->engines = 1;
    caps->formats = 1 << NV12;
    caps->max_width = caps->max_height = 4096;
    return SUCCESS;
}

EXPORT int cuvidCreateVideoParser(void **handle, const struct parser_params *params)
{
    parser = *params;
    frames = fopen(getenv("FAKE_NVCUVID_FRAMES"), "rb");
    *handle = &parser;
    return params->codec == H264 && frames ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuvidParseVideoData(void *handle, const struct packet *packet)
{
    struct sequence sequence = { .codec = H264, .progressive = 1, .min_surfaces = SURFACES, .coded = { WIDTH, HEIGHT },
                                 .display = { 0, 0, WIDTH, HEIGHT }, .chroma = CHROMA_420 };
    if (handle != &parser || (packet->flags & END_OF_STREAM ? packet->size != 0 : packet->bytes[packet->size - 1] == 255))
        return INVALID_VALUE;
    if (packet->flags & END_OF_STREAM)
        return SUCCESS;
    if (parser.on_sequence(parser.user, &sequence) != SURFACES)
        return INVALID_VALUE;
    for (;;) {
        struct shown shown = { .index = decoded % SURFACES, .progressive = 1 };
        if (fread(surfaces[shown.index], sizeof *surfaces, 1, frames) != 1)
            return SUCCESS;
        if (!parser.on_decode(parser.user, &shown.index) || !parser.on_display(parser.user, &shown))
            return INVALID_VALUE;
    }
}

EXPORT int cuvidDestroyVideoParser(void *handle)
{
    return handle == &parser ? fclose(frames) : INVALID_VALUE;
}

EXPORT int cuvidCreateDecoder(void **handle, const struct decoder_info *info)
{
    decoder = *info;
    *handle = &decoder;
    created++;
    return info->width == WIDTH && info->target_height == HEIGHT && info->surfaces == SURFACES && info->codec == H264 &&
                   info->chroma == CHROMA_420 && info->format == NV12 && info->display[3] == HEIGHT && info->outputs > 0
               ? SUCCESS
               : INVALID_VALUE;
}

EXPORT int cuvidDecodePicture(void *handle, const int32_t *picture)
{
    return handle == &decoder && *picture == decoded++ % SURFACES ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuvidGetDecodeStatus(void *handle, int index, uint32_t *status)
{
    *status = DECODED;
    return handle == &decoder && index < SURFACES ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuvidMapVideoFrame64(void *handle, int index, uint64_t *address, uint32_t *pitch, const struct map_params *params)
{
    static uint8_t padded[ROWS][PITCH];
    if (handle != &decoder || !params->stream || mapped - unmapped == (int)decoder.outputs)
        return INVALID_VALUE;
    memset(padded, 0xA5, sizeof padded);
    for (int row = 0; row < ROWS; row++)
        memcpy(padded[row], surfaces[index][row], WIDTH);
    mapped++;
    *pitch = PITCH;
    int status = cuda("cuMemAlloc_v2", (uint64_t)address, sizeof padded, 0);
    return status ? status : cuda("cuMemcpyHtoD_v2", *address, (uint64_t)padded, sizeof padded);
}

EXPORT int cuvidUnmapVideoFrame64(void *handle, uint64_t address)
{
    unmapped++;
    return handle == &decoder ? cuda("cuMemFree_v2", address, 0, 0) : INVALID_VALUE;
}

EXPORT int cuvidDestroyDecoder(void *handle)
{
    printf("%d created, %d decoded, %d mapped, %d unmapped\n", created, decoded, mapped, unmapped);
    return handle == &decoder ? SUCCESS : INVALID_VALUE;
}
