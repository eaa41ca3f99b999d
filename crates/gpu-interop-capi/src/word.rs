//! Words in memory that streams wait for and write.

use gpu_interop::{Error, Result, WaitCondition};

use crate::buffer::gpi_range;
use crate::call::call;
use crate::handle::gpi_stream;
use crate::object;
use crate::status::gpi_status;

/// Condition: the word has reached the value, with wrap-around. HIP compares without wrap-around.
pub const GPI_WAIT_GREATER_OR_EQUAL: i32 = 0;
/// Condition: the word equals the value.
pub const GPI_WAIT_EQUAL: i32 = 1;
/// Condition: the word and the value have a common bit.
pub const GPI_WAIT_AND: i32 = 2;
/// Condition: a bit is set neither in the word nor in the value.
pub const GPI_WAIT_NOR: i32 = 3;

fn condition(operation: &'static str, condition: i32) -> Result<WaitCondition> {
    match condition {
        GPI_WAIT_GREATER_OR_EQUAL => Ok(WaitCondition::GreaterOrEqual),
        GPI_WAIT_EQUAL => Ok(WaitCondition::Equal),
        GPI_WAIT_AND => Ok(WaitCondition::And),
        GPI_WAIT_NOR => Ok(WaitCondition::Nor),
        _ => {
            Err(Error::invalid(operation, "unknown condition; pass a GPI_WAIT_*").with_context("condition", condition))
        }
    }
}

/// Makes later work wait until the 32-bit word of a range satisfies a `GPI_WAIT_*` (`cuStreamWaitValue32`).
///
/// Errors: `GPI_ERROR_UNSUPPORTED` where streams lack it; `GPI_ERROR_INVALID_ARGUMENT` unless the range is 4 bytes, aligned to
/// 4 bytes, and of the stream's device; otherwise the driver's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_wait_value_u32(stream: gpi_stream, word: gpi_range, value: u32, wait: i32) -> gpi_status {
    call("gpi_stream_wait_value_u32", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, word.memory(operation)?);
        stream.wait_value_u32(word.slice(operation, &memory)?, value, condition(operation, wait)?)
    })
}

/// As `gpi_stream_wait_value_u32`, for a 64-bit word (`cuStreamWaitValue64`).
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_wait_value_u64(stream: gpi_stream, word: gpi_range, value: u64, wait: i32) -> gpi_status {
    call("gpi_stream_wait_value_u64", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, word.memory(operation)?);
        stream.wait_value_u64(word.slice(operation, &memory)?, value, condition(operation, wait)?)
    })
}

/// Writes the 32-bit word of a range after all work enqueued before has completed (`cuStreamWriteValue32`).
///
/// Errors: as `gpi_stream_wait_value_u32`.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_write_value_u32(stream: gpi_stream, word: gpi_range, value: u32) -> gpi_status {
    call("gpi_stream_write_value_u32", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, word.memory(operation)?);
        stream.write_value_u32(word.slice(operation, &memory)?, value)
    })
}

/// As `gpi_stream_write_value_u32`, for a 64-bit word (`cuStreamWriteValue64`).
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_write_value_u64(stream: gpi_stream, word: gpi_range, value: u64) -> gpi_status {
    call("gpi_stream_write_value_u64", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, word.memory(operation)?);
        stream.write_value_u64(word.slice(operation, &memory)?, value)
    })
}
