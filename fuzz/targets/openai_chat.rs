//! Any bytes as the body of a Chat Completions reply.
#![no_main]

use deputize_fuzz::{stream, wire};
use libfuzzer_sys::fuzz_target;

wire!(
    Chat,
    openai_chat,
    true,
    ["[DONE]", "finish_reason"],
    [
        ("", ": still here\n\n"),
        ("data: {\"x\":[0", ",0"),
        ("data: {\"x\":\"", "x"),
        ("", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"),
        ("", "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\n\n"),
        ("", "data: {\"choices\":[{\"delta\":{\"content\":\" \"}}]}\n\n"),
        (
            "data: {\"choices\":[{\"delta\":{\"content\":\"<think>\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"x</thin\"}}]}\n\n",
        ),
        ("", "data: {\"choices\":[{\"delta\":{\"extra_content\":{\"x\":\"y\"}}}]}\n\n"),
        ("", "data: {\"choices\":[{\"delta\":{\"refusal\":\"x\"}}]}\n\n"),
        ("", "data: {\"choices\":[{\"delta\":{\"reasoning\":\"x\"}}]}\n\n"),
        (
            "",
            "data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"x\"}]}}]}\n\n",
        ),
        (
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"x\"}}]}}]}\n\n",
        ),
        (
            "",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\"}}]}}]}\n\n",
        ),
    ]
);

fuzz_target!(init: stream::grows_with_length::<Chat>(), |body: &[u8]| {
    stream::check::<Chat>(body);
});
