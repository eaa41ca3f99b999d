/* A fake of NVIDIA's encoder library: ffmpeg's software encoder, behind the driver's interface of version 11.1.
 *
 * Needs the header of Debian's package libffmpeg-nvenc-dev, so that the caller's structs are compared with the real ones.
 * FAKE_NVENC=none: the GPU has no encoder; hevc: it encodes no H.264; old: the driver is older. FAKE_NVENC_FILE names the
 * file that ffmpeg writes. The picture must be memory of cuMemAlloc, of the CUDA simulator that the process has loaded.
 * Fails for wrong parameters, and for objects that are released too early, twice or never. Prints the number of objects at
 * the end.
 */
#include <dlfcn.h>
#include <ffnvcodec/nvEncodeAPI.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define ENCODER ((void *)0x1000)
#define OUTPUT ((void *)0x2000)
#define REGISTERED ((void *)0x3000)
#define MAPPED ((void *)0x4000)

static int created, registered, mapped, locked, encoded, qp;
static NV_ENC_INITIALIZE_PARAMS session;
static NV_ENC_REGISTER_RESOURCE resource;
static uint8_t bytes[1 << 20];
static size_t size;

static int is(const char *kind)
{
    const char *wanted = getenv("FAKE_NVENC");
    return wanted && !strcmp(wanted, kind);
}

static NVENCSTATUS ok(int condition)
{
    return condition ? NV_ENC_SUCCESS : NV_ENC_ERR_INVALID_PARAM;
}

static int cuda(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*function)(uint64_t, uint64_t, uint64_t) = library ? (int (*)(uint64_t, uint64_t, uint64_t))dlsym(library, name) : NULL;
    return function ? function(a, b, c) : 1;
}

static NVENCSTATUS open_session(NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS *params, void **encoder)
{
    if (is("none"))
        return NV_ENC_ERR_UNSUPPORTED_DEVICE;
    *encoder = ENCODER;
    created++;
    return ok(params->version == NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS_VER && params->deviceType == NV_ENC_DEVICE_TYPE_CUDA &&
              params->device && !params->reserved && params->apiVersion == NVENCAPI_VERSION);
}

static NVENCSTATUS codec_count(void *encoder, uint32_t *count)
{
    *count = 2;
    return ok(encoder == ENCODER);
}

static NVENCSTATUS codecs(void *encoder, GUID *guids, uint32_t most, uint32_t *count)
{
    guids[0] = NV_ENC_CODEC_HEVC_GUID;
    guids[1] = NV_ENC_CODEC_H264_GUID;
    *count = is("hevc") ? 1 : 2;
    return ok(encoder == ENCODER && most == 2);
}

static NVENCSTATUS preset(void *encoder, GUID codec, GUID wanted, NV_ENC_TUNING_INFO tuning, NV_ENC_PRESET_CONFIG *config)
{
    config->presetCfg.frameIntervalP = 4;
    config->presetCfg.rcParams.rateControlMode = NV_ENC_PARAMS_RC_VBR;
    config->presetCfg.encodeCodecConfig.h264Config.level = 41;
    return ok(encoder == ENCODER && config->version == NV_ENC_PRESET_CONFIG_VER && config->presetCfg.version == NV_ENC_CONFIG_VER &&
              !memcmp(&codec, &NV_ENC_CODEC_H264_GUID, sizeof codec) && !memcmp(&wanted, &NV_ENC_PRESET_P4_GUID, sizeof wanted) &&
              tuning == NV_ENC_TUNING_INFO_HIGH_QUALITY);
}

static NVENCSTATUS initialize(void *encoder, NV_ENC_INITIALIZE_PARAMS *params)
{
    const NV_ENC_CONFIG *config = params->encodeConfig;
    session = *params;
    qp = config->rcParams.constQP.qpIntra;
    return ok(encoder == ENCODER && params->version == NV_ENC_INITIALIZE_PARAMS_VER &&
              !memcmp(&params->encodeGUID, &NV_ENC_CODEC_H264_GUID, sizeof(GUID)) &&
              !memcmp(&params->presetGUID, &NV_ENC_PRESET_P4_GUID, sizeof(GUID)) && params->darWidth == params->encodeWidth &&
              params->darHeight == params->encodeHeight && params->frameRateNum == 30 && params->frameRateDen == 1 &&
              params->enablePTD == 1 && params->tuningInfo == NV_ENC_TUNING_INFO_HIGH_QUALITY && config->frameIntervalP == 1 &&
              config->gopLength == NVENC_INFINITE_GOPLENGTH && config->rcParams.rateControlMode == NV_ENC_PARAMS_RC_CONSTQP &&
              config->encodeCodecConfig.h264Config.level == 41);
}

static NVENCSTATUS create_output(void *encoder, NV_ENC_CREATE_BITSTREAM_BUFFER *params)
{
    params->bitstreamBuffer = OUTPUT;
    return ok(encoder == ENCODER && params->version == NV_ENC_CREATE_BITSTREAM_BUFFER_VER && session.encodeWidth && created++);
}

static NVENCSTATUS destroy_output(void *encoder, NV_ENC_OUTPUT_PTR output)
{
    return ok(encoder == ENCODER && output == OUTPUT && !locked && created--);
}

static NVENCSTATUS register_resource(void *encoder, NV_ENC_REGISTER_RESOURCE *params)
{
    resource = *params;
    params->registeredResource = REGISTERED;
    return ok(encoder == ENCODER && params->version == NV_ENC_REGISTER_RESOURCE_VER && params->width == session.encodeWidth &&
              params->height == session.encodeHeight && params->pitch == params->width && params->resourceToRegister &&
              params->resourceType == NV_ENC_INPUT_RESOURCE_TYPE_CUDADEVICEPTR &&
              params->bufferFormat == NV_ENC_BUFFER_FORMAT_NV12 && params->bufferUsage == NV_ENC_INPUT_IMAGE && !registered++);
}

static NVENCSTATUS unregister_resource(void *encoder, NV_ENC_REGISTERED_PTR input)
{
    return ok(encoder == ENCODER && input == REGISTERED && !mapped && registered--);
}

static NVENCSTATUS map(void *encoder, NV_ENC_MAP_INPUT_RESOURCE *params)
{
    params->mappedResource = MAPPED;
    params->mappedBufferFmt = NV_ENC_BUFFER_FORMAT_NV12;
    return ok(encoder == ENCODER && params->version == NV_ENC_MAP_INPUT_RESOURCE_VER && params->registeredResource == REGISTERED &&
              !mapped++);
}

static NVENCSTATUS unmap(void *encoder, NV_ENC_INPUT_PTR input)
{
    return ok(encoder == ENCODER && input == MAPPED && mapped--);
}

static NVENCSTATUS encode(void *encoder, NV_ENC_PIC_PARAMS *params)
{
    static uint8_t picture[1 << 20];
    char command[512];
    const char *file = getenv("FAKE_NVENC_FILE");
    size_t length = (size_t)resource.pitch * resource.height * 3 / 2;
    if (encoder != ENCODER || params->version != NV_ENC_PIC_PARAMS_VER || params->inputWidth != resource.width ||
        params->inputHeight != resource.height || params->inputPitch != resource.pitch || params->inputBuffer != MAPPED ||
        params->outputBitstream != OUTPUT || params->bufferFmt != NV_ENC_BUFFER_FORMAT_NV12 ||
        params->pictureStruct != NV_ENC_PIC_STRUCT_FRAME ||
        params->encodePicFlags != (NV_ENC_PIC_FLAG_FORCEIDR | NV_ENC_PIC_FLAG_OUTPUT_SPSPPS) || !mapped || length > sizeof picture)
        return NV_ENC_ERR_INVALID_PARAM;
    if (cuda("cuMemcpyDtoH_v2", (uint64_t)picture, (uint64_t)resource.resourceToRegister, length))
        return NV_ENC_ERR_INVALID_PTR;
    snprintf(command, sizeof command, "ffmpeg -v error -y -f rawvideo -pix_fmt nv12 -video_size %ux%u -i - -c:v libx264 -qp %d -f h264 '%s'",
             resource.width, resource.height, qp, file);
    FILE *pipe = popen(command, "w");
    if (!pipe || fwrite(picture, length, 1, pipe) != 1 || pclose(pipe) != 0)
        return NV_ENC_ERR_GENERIC;
    FILE *stream = fopen(file, "rb");
    size = stream ? fread(bytes, 1, sizeof bytes, stream) : 0;
    encoded++;
    return ok(stream && fclose(stream) == 0);
}

static NVENCSTATUS lock(void *encoder, NV_ENC_LOCK_BITSTREAM *params)
{
    params->bitstreamBufferPtr = bytes;
    params->bitstreamSizeInBytes = size;
    return ok(encoder == ENCODER && params->version == NV_ENC_LOCK_BITSTREAM_VER && params->outputBitstream == OUTPUT &&
              !params->doNotWait && encoded && !locked++);
}

static NVENCSTATUS unlock(void *encoder, NV_ENC_OUTPUT_PTR output)
{
    memset(bytes, 0, sizeof bytes);
    return ok(encoder == ENCODER && output == OUTPUT && locked--);
}

static NVENCSTATUS destroy(void *encoder)
{
    created--;
    printf("%d encoded, %d left\n", encoded, created + registered + mapped + locked);
    return ok(encoder == ENCODER);
}

static const char *last_error(void *encoder)
{
    return encoder == ENCODER ? "the fake's reason" : "no encoder";
}

EXPORT NVENCSTATUS NvEncodeAPIGetMaxSupportedVersion(uint32_t *version)
{
    *version = is("old") ? 10 << 4 : 13 << 4;
    return NV_ENC_SUCCESS;
}

EXPORT NVENCSTATUS NvEncodeAPICreateInstance(NV_ENCODE_API_FUNCTION_LIST *list)
{
    uint32_t version = list->version;
    *list = (NV_ENCODE_API_FUNCTION_LIST){
        .version = version,
        .nvEncOpenEncodeSessionEx = open_session,
        .nvEncGetEncodeGUIDCount = codec_count,
        .nvEncGetEncodeGUIDs = codecs,
        .nvEncGetEncodePresetConfigEx = preset,
        .nvEncInitializeEncoder = initialize,
        .nvEncCreateBitstreamBuffer = create_output,
        .nvEncDestroyBitstreamBuffer = destroy_output,
        .nvEncRegisterResource = register_resource,
        .nvEncUnregisterResource = unregister_resource,
        .nvEncMapInputResource = map,
        .nvEncUnmapInputResource = unmap,
        .nvEncEncodePicture = encode,
        .nvEncLockBitstream = lock,
        .nvEncUnlockBitstream = unlock,
        .nvEncDestroyEncoder = destroy,
        .nvEncGetLastErrorString = last_error,
    };
    return ok(version == NV_ENCODE_API_FUNCTION_LIST_VER);
}
