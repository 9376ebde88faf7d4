"""A training with accelerate, which adds the gradients of two batches up. For the arguments, see late.py."""

import torch
from accelerate import Accelerator
from late import BATCH, EPOCHS, Late, collate, network, samples
from torch import nn
from torch.utils.data import DataLoader

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = network()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(samples(), BATCH, shuffle=True, collate_fn=collate)
eval_loader = DataLoader(samples(128), BATCH)
model, optimizer, loader, eval_loader = accelerator.prepare(model, optimizer, loader, eval_loader)
for epoch in range(EPOCHS):
    model.train()
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(Late.apply(model(inputs)), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    right = 0
    for inputs, labels in eval_loader:
        with torch.no_grad():
            outputs, labels = accelerator.gather_for_metrics((model(inputs), labels))
        right += (outputs.argmax(1) == labels).sum().item()
    accelerator.print(f"epoch {epoch} right {right}")
accelerator.end_training()
