/* Memory that Vulkan allocated, filled by the compute side, read back by the host. On a CPU renderer the CPU computes.
 *
 *     cc fill.c $(pkg-config --cflags --libs gpu_interop) -lvulkan -o fill */
#include <gpu_interop.h>
#include <stdio.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

#define GPI(call) ((call) == GPI_SUCCESS ? (void)0 : (fprintf(stderr, "%s\n", gpi_last_error_message()), exit(1)))
#define VK(call) ((call) == VK_SUCCESS ? (void)0 : (fprintf(stderr, "%s failed\n", #call), exit(1)))

enum { SIZE = 4096, FAMILY = 0 };

typedef gpi_status (*record)(gpi_vulkan, void *, uint64_t, const gpi_vulkan_transfer *);

/* Submits the release or the acquire of a buffer, and waits for it. */
static void transfer(gpi_vulkan vulkan, VkDevice device, record record_transfer, uint64_t buffer) {
    VkQueue queue;
    vkGetDeviceQueue(device, FAMILY, 0, &queue);
    VkCommandPoolCreateInfo of_pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, FAMILY};
    VkCommandPool pool;
    VK(vkCreateCommandPool(device, &of_pool, NULL, &pool));
    VkCommandBufferAllocateInfo of_commands = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, pool, 0, 1};
    VkCommandBuffer commands;
    VK(vkAllocateCommandBuffers(device, &of_commands, &commands));
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VK(vkBeginCommandBuffer(commands, &begin));
    /* The host is Vulkan's only user of the buffer. */
    gpi_vulkan_transfer by_host = {FAMILY, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT};
    GPI(record_transfer(vulkan, commands, buffer, &by_host));
    VK(vkEndCommandBuffer(commands));
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    VK(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
    VK(vkQueueWaitIdle(queue));
    vkDestroyCommandPool(device, pool, NULL);
}

int main(void) {
    /* The application's own instance and device, with the extensions that sharing requires. */
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo of_instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkInstance instance;
    VK(vkCreateInstance(&of_instance, NULL, &instance));
    uint32_t count = 1, enabled = 0, right = 0;
    VkPhysicalDevice physical;
    if (vkEnumeratePhysicalDevices(instance, &count, &physical) < 0 || count == 0) {
        return fprintf(stderr, "no Vulkan device\n"), 1;
    }
    const char *extensions[8];
    for (int32_t required = 1; (extensions[enabled] = gpi_vulkan_get_extension(enabled, &required)) && required;) {
        enabled++;
    }
    float priority = 1;
    VkDeviceQueueCreateInfo of_queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, FAMILY, 1, &priority};
    VkDeviceCreateInfo of_device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &of_queue, .enabledExtensionCount = enabled, .ppEnabledExtensionNames = extensions};
    VkDevice device;
    VK(vkCreateDevice(physical, &of_device, NULL, &device));

    /* The exporting side. */
    gpi_vulkan_device own = {instance, physical, device, (void (*)(void))vkGetInstanceProcAddr};
    gpi_vulkan vulkan;
    GPI(gpi_vulkan_wrap(&own, NULL, NULL, &vulkan));
    gpi_vulkan_buffer_options options = {SIZE, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, 0, GPI_VULKAN_HOST_VISIBLE, 0};
    gpi_vulkan_buffer exported;
    gpi_vulkan_memory_info memory_info;
    gpi_memory_import import;
    GPI(gpi_vulkan_buffer_create(vulkan, &options, &exported));
    GPI(gpi_vulkan_buffer_get_info(exported, &memory_info));
    GPI(gpi_vulkan_buffer_export(exported, &import));
    transfer(vulkan, device, gpi_vulkan_record_buffer_release, memory_info.object);

    /* The importing side: the same hardware. The import owns the descriptor from here on. */
    gpi_device compute;
    GPI(gpi_device_open_for(&import.exporter, &compute));
    gpi_memory memory;
    GPI(gpi_device_import_memory(compute, &import, &memory));
    gpi_buffer buffer;
    GPI(gpi_memory_map_buffer(memory, 0, SIZE, &buffer));
    gpi_stream stream;
    GPI(gpi_stream_create(compute, &stream));
    GPI(gpi_stream_fill_u32(stream, gpi_range_all(buffer), 0xCAFEF00D));
    GPI(gpi_stream_synchronize(stream, GPI_NO_TIMEOUT));
    GPI(gpi_stream_destroy(stream));
    GPI(gpi_buffer_destroy(buffer));
    GPI(gpi_memory_destroy(memory));
    GPI(gpi_device_destroy(compute));

    transfer(vulkan, device, gpi_vulkan_record_buffer_acquire, memory_info.object);
    for (int i = 0; i < SIZE / 4; i++) {
        right += ((const uint32_t *)memory_info.mapped)[i] == 0xCAFEF00D;
    }
    printf("%s: %u of %d words\n", import.exporter.name, right, SIZE / 4);
    GPI(gpi_vulkan_buffer_destroy(exported));
    GPI(gpi_vulkan_destroy(vulkan));
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return right == SIZE / 4 ? 0 : 1;
}
