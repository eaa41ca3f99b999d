/* A decoded frame of FFmpeg in its own Vulkan images: the compute side draws a bar into each plane, without a copy to the CPU.
 * For libavutil 57 (FFmpeg 5.1), which has one image a plane.
 *
 *     cc ffmpeg_frame.c $(pkg-config --cflags --libs gpu_interop libavcodec libavutil) -lvulkan -o ffmpeg_frame */
#include <gpu_interop.h>
#include <libavcodec/avcodec.h>
#include <libavutil/hwcontext.h>
#include <libavutil/hwcontext_vulkan.h>
#include <stdio.h>
#include <stdlib.h>

#define GPI(call) ((call) == GPI_SUCCESS ? (void)0 : (fprintf(stderr, "%s\n", gpi_last_error_message()), exit(1)))
#define CHECK(condition) ((condition) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #condition), exit(1)))

enum { WIDTH = 640, HEIGHT = 360, TOP = 40, BAR = 16 };

/* Encodes and decodes a picture, as if it came from a file. */
static AVFrame *decoded_frame(void) {
    AVFrame *frame = av_frame_alloc();
    AVPacket *packet = av_packet_alloc();
    frame->width = WIDTH, frame->height = HEIGHT, frame->format = AV_PIX_FMT_YUV420P;
    CHECK(av_frame_get_buffer(frame, 0) == 0);
    for (int plane = 0; plane < 3; plane++) {
        for (int i = 0; i < frame->linesize[plane] * (plane ? HEIGHT / 2 : HEIGHT); i++) {
            frame->data[plane][i] = (uint8_t)(i * (plane + 3) / 7);
        }
    }
    AVCodecContext *encoder = avcodec_alloc_context3(avcodec_find_encoder(AV_CODEC_ID_MPEG4));
    encoder->width = WIDTH, encoder->height = HEIGHT, encoder->pix_fmt = AV_PIX_FMT_YUV420P;
    encoder->time_base = (AVRational){1, 25};
    CHECK(avcodec_open2(encoder, NULL, NULL) == 0 && avcodec_send_frame(encoder, frame) == 0);
    CHECK(avcodec_send_frame(encoder, NULL) == 0 && avcodec_receive_packet(encoder, packet) == 0);
    AVCodecContext *decoder = avcodec_alloc_context3(avcodec_find_decoder(AV_CODEC_ID_MPEG4));
    CHECK(avcodec_open2(decoder, NULL, NULL) == 0 && avcodec_send_packet(decoder, packet) == 0);
    CHECK(avcodec_send_packet(decoder, NULL) == 0 && avcodec_receive_frame(decoder, frame) == 0);
    avcodec_free_context(&encoder), avcodec_free_context(&decoder), av_packet_free(&packet);
    return frame;
}

/* Submits the release or the acquire of a plane's image, after the value that FFmpeg waits for next, which it raises. */
static void transfer(AVVulkanDeviceContext *vulkan, gpi_vulkan wrapped, AVVkFrame *frame, int plane, int acquire) {
    uint32_t family = (uint32_t)vulkan->queue_family_tx_index;
    VkQueue queue;
    vkGetDeviceQueue(vulkan->act_dev, family, 0, &queue);
    VkCommandPoolCreateInfo of_pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, family};
    VkCommandPool pool;
    CHECK(vkCreateCommandPool(vulkan->act_dev, &of_pool, NULL, &pool) == VK_SUCCESS);
    VkCommandBufferAllocateInfo of_commands = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, pool, 0, 1};
    VkCommandBuffer commands;
    CHECK(vkAllocateCommandBuffers(vulkan->act_dev, &of_commands, &commands) == VK_SUCCESS);
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    CHECK(vkBeginCommandBuffer(commands, &begin) == VK_SUCCESS);
    gpi_vulkan_transfer all = {family, 0, 0};
    uint64_t image = (uint64_t)frame->img[plane];
    GPI((acquire ? gpi_vulkan_record_image_acquire : gpi_vulkan_record_image_release)(
        wrapped, commands, image, &all, (int32_t)frame->layout[plane]));
    CHECK(vkEndCommandBuffer(commands) == VK_SUCCESS);
    uint64_t wait = frame->sem_value[plane], signal = ++frame->sem_value[plane];
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkTimelineSemaphoreSubmitInfo values = {VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, NULL, 1, &wait, 1, &signal};
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO, &values, 1, &frame->sem[plane], &stages, 1, &commands, 1,
                           &frame->sem[plane]};
    CHECK(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);
    if (acquire) {
        CHECK(vkQueueWaitIdle(queue) == VK_SUCCESS);
        vkDestroyCommandPool(vulkan->act_dev, pool, NULL);
    } /* else: a real program keeps the pool until the value has been reached. */
}

/* Draws a bar into one plane: the compute side waits for FFmpeg's value, and FFmpeg for the next one. */
static void draw(AVVulkanDeviceContext *vulkan, gpi_vulkan wrapped, AVVkFrame *frame, int plane) {
    /* As FFmpeg decides it: memory is dedicated if the driver prefers that. */
    VkMemoryDedicatedRequirements dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
    VkMemoryRequirements2 required = {VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, &dedicated, {0}};
    VkImageMemoryRequirementsInfo2 of_image = {VK_STRUCTURE_TYPE_IMAGE_MEMORY_REQUIREMENTS_INFO_2, NULL, frame->img[plane]};
    vkGetImageMemoryRequirements2(vulkan->act_dev, &of_image, &required);
    int is_dedicated = dedicated.prefersDedicatedAllocation || dedicated.requiresDedicatedAllocation;
    VkImageSubresource first = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0};
    VkSubresourceLayout rows;
    vkGetImageSubresourceLayout(vulkan->act_dev, frame->img[plane], &first, &rows);

    gpi_memory_import import;
    gpi_device device;
    gpi_memory memory;
    gpi_buffer buffer;
    gpi_exported_semaphore semaphore;
    gpi_timeline timeline;
    gpi_stream stream;
    GPI(gpi_vulkan_export_memory(wrapped, (uint64_t)frame->mem[plane], frame->size[plane], is_dedicated,
                                 GPI_MEMORY_OPAQUE_FD, &import));
    GPI(gpi_device_open_for(&import.exporter, &device));
    GPI(gpi_device_import_memory(device, &import, &memory));
    GPI(gpi_memory_map_buffer(memory, 0, GPI_WHOLE_SIZE, &buffer));
    GPI(gpi_exported_semaphore_wrap_vulkan(wrapped, (uint64_t)frame->sem[plane], 0, NULL, NULL, &semaphore));
    GPI(gpi_timeline_create(device, semaphore, GPI_TIMELINE_AUTO, &timeline));
    GPI(gpi_stream_create(device, &stream));

    transfer(vulkan, wrapped, frame, plane, 0);
    int scale = plane ? 2 : 1;
    GPI(gpi_stream_wait_timeline(stream, timeline, frame->sem_value[plane]));
    for (int row = TOP / scale; row < (TOP + BAR) / scale; row++) {
        gpi_range line = gpi_range_of(buffer, rows.offset + (uint64_t)row * rows.rowPitch, WIDTH / scale);
        GPI(gpi_stream_fill(stream, line, (uint8_t)(200 + plane)));
    }
    GPI(gpi_stream_signal_timeline(stream, timeline, ++frame->sem_value[plane]));
    transfer(vulkan, wrapped, frame, plane, 1);

    GPI(gpi_stream_synchronize(stream, GPI_NO_TIMEOUT));
    GPI(gpi_stream_destroy(stream)), GPI(gpi_timeline_destroy(timeline)), GPI(gpi_exported_semaphore_destroy(semaphore));
    GPI(gpi_buffer_destroy(buffer)), GPI(gpi_memory_destroy(memory)), GPI(gpi_device_destroy(device));
}

int main(void) {
    AVFrame *software = decoded_frame(), *hardware = av_frame_alloc(), *result = av_frame_alloc();
    AVBufferRef *context = NULL;
    CHECK(av_hwdevice_ctx_create(&context, AV_HWDEVICE_TYPE_VULKAN, NULL, NULL, 0) == 0);
    AVVulkanDeviceContext *vulkan = ((AVHWDeviceContext *)context->data)->hwctx;
    AVBufferRef *pool = av_hwframe_ctx_alloc(context);
    AVHWFramesContext *frames = (AVHWFramesContext *)pool->data;
    frames->format = AV_PIX_FMT_VULKAN, frames->sw_format = AV_PIX_FMT_YUV420P;
    frames->width = WIDTH, frames->height = HEIGHT;
    ((AVVulkanFramesContext *)frames->hwctx)->tiling = VK_IMAGE_TILING_LINEAR;
    CHECK(av_hwframe_ctx_init(pool) == 0 && av_hwframe_get_buffer(pool, hardware, 0) == 0);
    CHECK(av_hwframe_transfer_data(hardware, software, 0) == 0);

    gpi_vulkan_device own = {vulkan->inst, vulkan->phys_dev, vulkan->act_dev, (void (*)(void))vulkan->get_proc_addr};
    gpi_vulkan wrapped;
    GPI(gpi_vulkan_wrap(&own, NULL, NULL, &wrapped));
    for (int plane = 0; plane < 3; plane++) {
        draw(vulkan, wrapped, (AVVkFrame *)hardware->data[0], plane);
    }
    CHECK(av_hwframe_transfer_data(result, hardware, 0) == 0);

    int wrong = 0;
    for (int plane = 0; plane < 3; plane++) {
        int scale = plane ? 2 : 1;
        for (int y = 0; y < HEIGHT / scale; y++) {
            int in_bar = y >= TOP / scale && y < (TOP + BAR) / scale;
            for (int x = 0; x < WIDTH / scale; x++) {
                int before = software->data[plane][y * software->linesize[plane] + x];
                wrong += result->data[plane][y * result->linesize[plane] + x] != (in_bar ? 200 + plane : before);
            }
        }
    }
    printf("%d of %d samples differ\n", wrong, WIDTH * HEIGHT * 3 / 2);
    GPI(gpi_vulkan_destroy(wrapped));
    av_frame_free(&software), av_frame_free(&hardware), av_frame_free(&result);
    av_buffer_unref(&pool), av_buffer_unref(&context);
    return wrong != 0;
}
