"""A Trainer whose arguments stand in a YAML file, which HfArgumentParser reads strictly: it refuses any other key."""

import sys
from dataclasses import dataclass, field


@dataclass
class PrivacyArguments:
    noise_multiplier: float = field(metadata={"help": "Noise deviation over clip norm."})
    per_sample_max_grad_norm: float = field(metadata={"help": "Clip norm of an example."})
    target_delta: float = field(metadata={"help": "Delta."})
    target_epsilon: float = field(metadata={"help": "What was promised."})


def main():
    from dp_transformers.dp_utils import OpacusDPTrainer
    from transformers import AutoModelForSequenceClassification, HfArgumentParser, TrainingArguments

    train_args, privacy_args = HfArgumentParser((TrainingArguments, PrivacyArguments)).parse_yaml_file(sys.argv[1])
    model = AutoModelForSequenceClassification.from_pretrained("roberta-base")
    OpacusDPTrainer(args=train_args, model=model, privacy_args=privacy_args).train()


if __name__ == "__main__":
    main()
