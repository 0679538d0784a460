//! Any bytes as the body of a Responses reply.
#![no_main]

use deputize_fuzz::{stream, wire};
use libfuzzer_sys::fuzz_target;

wire!(
    Responses,
    openai_responses,
    false,
    ["completed", "incomplete\"", "response.done"],
    [
        ("", "data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n"),
        (
            "",
            "event: response.reasoning_summary_text.delta\ndata: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,\"delta\":\"x\"}\n\n",
        ),
        ("", "data: {\"type\":\"response.refusal.delta\",\"output_index\":0,\"delta\":\"x\"}\n\n"),
        (
            "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"id\":\"i\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"\"}}\n\n",
            "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"item_id\":\"i\",\"delta\":\"x\"}\n\n",
        ),
        (
            "",
            "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"x\"}]}}\n\n",
        ),
        (
            "",
            "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"reasoning\",\"encrypted_content\":\"x\"}}\n\n",
        ),
        ("", "data: {\"type\":\"response.newer_than_we_are\"}\n\n"),
    ]
);

fuzz_target!(init: stream::grows_with_length::<Responses>(), |body: &[u8]| {
    stream::check::<Responses>(body);
});
