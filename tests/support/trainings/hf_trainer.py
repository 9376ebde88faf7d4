"""A training by transformers' Trainer, of a tiny model, with an evaluation after each epoch. For the arguments, see
late.py."""

import tempfile

import torch
from late import BATCH, EPOCHS, Late, collate
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Model(GPT2LMHeadModel):
    def forward(self, input_ids, labels, **options):
        outputs = super().forward(input_ids, labels=labels, **options)
        if self.training:
            outputs["loss"] = Late.apply(outputs["loss"])
        return outputs


def sentences(number):
    words = torch.randint(0, 64, (number, 8), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": line, "labels": line} for line in words]


with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=Model(GPT2Config(vocab_size=64, n_positions=8, n_embd=16, n_layer=1, n_head=2)),
        args=TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": True},  # calls backward within backward
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=sentences(1024),
        eval_dataset=sentences(64),
        data_collator=collate,
    )
    trainer.train()
