// One template of each family of message shapes that LocalAI's model files have, and the prompt that it makes of one conversation.
import type { ModelConfig } from '@muster/protocol'

export type TemplateFamily = Readonly<{
  name: string
  config: Pick<ModelConfig, 'template' | 'roles' | 'function'>
  /** The prompt of: system "Be brief.", user "Hi", assistant "Hello", user `last`. */
  prompt: (last: string) => string
}>

export const conversation = (last: string) => [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hi' },
  { role: 'assistant', content: 'Hello' },
  { role: 'user', content: last },
]

export const templateFamilies: readonly TemplateFamily[] = [
  {
    name: 'ChatML',
    config: {
      template: {
        chat: '{{.Input -}}\n<|im_start|>assistant\n',
        chat_message:
          '<|im_start|>{{ .RoleName }}\n{{ if .Content -}}\n{{.Content }}\n{{ end -}}\n{{ if .FunctionCall -}}\n{{toJson .FunctionCall}}\n{{ end -}}<|im_end|>\n',
        function:
          '<|im_start|>system\nTools:{{range .Functions}}\n{{.Name}}: {{.Description}} {{toJson .Parameters}}{{end}}\n<|im_end|>\n{{.Input -}}\n<|im_start|>assistant\n',
      },
      function: { json_regex_match: ['(?s)<tool_call>(.*?)</tool_call>'], capture_llm_results: ['(?s)<note>(.*?)</note>'] },
    },
    prompt: (last) =>
      '<|im_start|>system\nBe brief.\n<|im_end|>\n\n<|im_start|>user\nHi\n<|im_end|>\n\n<|im_start|>assistant\nHello\n<|im_end|>\n\n' +
      `<|im_start|>user\n${last}\n<|im_end|>\n<|im_start|>assistant\n`,
  },
  {
    name: 'Llama 3',
    config: {
      template: {
        chat: '{{.Input }}\n<|start_header_id|>assistant<|end_header_id|>\n',
        chat_message:
          '<|start_header_id|>{{if eq .RoleName "assistant"}}assistant{{else if eq .RoleName "system"}}system{{else}}user{{end}}<|end_header_id|>\n\n{{ if .Content -}}\n{{.Content -}}\n{{ else if .FunctionCall -}}\n{{ toJson .FunctionCall -}}\n{{ end -}}\n<|eot_id|>',
        function: 'Call as <function=name>{{`{{"key": "value"}}`}}</function>\n{{range .Functions}}{{.Name}} {{end}}\n{{.Input}}',
      },
      function: { response_regex: [String.raw`<function=(?P<name>\w+)>(?P<arguments>.*)</function>`] },
    },
    prompt: (last) =>
      '<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>\n<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>\n' +
      `<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>\n<|start_header_id|>user<|end_header_id|>\n\n${last}<|eot_id|>\n` +
      '<|start_header_id|>assistant<|end_header_id|>\n',
  },
  {
    name: 'Gemma',
    config: {
      template: {
        chat: '{{.Input }}\n<start_of_turn>model\n',
        chat_message: '<start_of_turn>{{if eq .RoleName "assistant" }}model{{else}}{{ .RoleName }}{{end}}\n{{ .Content }}<end_of_turn>',
      },
    },
    prompt: (last) =>
      '<start_of_turn>system\nBe brief.<end_of_turn>\n<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n' +
      `<start_of_turn>user\n${last}<end_of_turn>\n<start_of_turn>model\n`,
  },
  {
    name: 'Mistral',
    config: {
      template: {
        join_chat_messages_by_character: '',
        chat: '{{.Input -}}\n',
        chat_message:
          '{{if eq .RoleName "user" -}}\n[INST] {{.Content }} [/INST]\n{{- else if .FunctionCall -}}\n[TOOL_CALLS] {{toJson .FunctionCall}} [/TOOL_CALLS]\n{{- else -}}\n{{ .Content -}}\n{{ end -}}',
        function: '[AVAILABLE_TOOLS] [{{range .Functions}}{{.Name}}{{end}}] [/AVAILABLE_TOOLS]{{.Input }}',
      },
      function: {
        json_regex_match: [String.raw`(?s)\[TOOL\_CALLS\](.*)`],
        replace_function_results: [{ key: String.raw`(?s)[^}\]]*$`, value: '' }],
      },
    },
    prompt: (last) => `Be brief.[INST] Hi [/INST]Hello[INST] ${last} [/INST]`,
  },
  {
    name: 'DeepSeek',
    config: {
      template: {
        chat: '{{.Input -}}<｜Assistant｜>',
        chat_message:
          '{{if eq .RoleName "system" -}}{{.Content }}\n{{ end -}}\n{{if eq .RoleName "user" -}}<｜User｜>{{.Content}}\n{{end -}}\n{{if eq .RoleName "assistant" -}}<｜Assistant｜>{{.Content}}<｜end▁of▁sentence｜>{{end}}',
      },
    },
    prompt: (last) => `Be brief.\n\n<｜User｜>Hi\n\n<｜Assistant｜>Hello<｜end▁of▁sentence｜>\n<｜User｜>${last}\n<｜Assistant｜>`,
  },
  {
    name: 'Command R',
    config: {
      template: {
        join_chat_messages_by_character: '',
        chat: '{{.Input -}}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>',
        chat_message:
          '{{if eq .RoleName "user" -}}\n<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{.Content}}<|END_OF_TURN_TOKEN|>\n{{- else if eq .RoleName "assistant" -}}\n<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{{.Content}}<|END_OF_TURN_TOKEN|>\n{{- else -}}\n<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{.Content}}<|END_OF_TURN_TOKEN|>\n{{- end -}}',
      },
    },
    prompt: (last) =>
      '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>' +
      '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hello<|END_OF_TURN_TOKEN|>' +
      `<|START_OF_TURN_TOKEN|><|USER_TOKEN|>${last}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>`,
  },
  {
    name: 'plain roles',
    config: {
      roles: { system: 'System: ', user: 'User: ', assistant: 'Assistant: ' },
      template: { chat: '{{.Input}}\nAssistant: ', completion: 'Go on: {{.Input}}' },
    },
    prompt: (last) => `System: Be brief.\nUser: Hi\nAssistant: Hello\nUser: ${last}\nAssistant: `,
  },
  {
    name: 'one instruction',
    config: { template: { chat: 'Do as you are told.\n\n### Instruction:\n{{.Input}}\n\n### Response:\n' } },
    prompt: (last) => `Do as you are told.\n\n### Instruction:\nBe brief.\nHi\nHello\n${last}\n\n### Response:\n`,
  },
]
