"""A training by Lightning, which starts its ranks itself. For the arguments, see late.py."""

import lightning
import torch
from late import BATCH, EPOCHS, Late, collate, network, samples
from torch import nn
from torch.utils.data import DataLoader


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()

    def training_step(self, batch, number):
        inputs, labels = batch
        loss = nn.functional.cross_entropy(Late.apply(self.network(inputs)), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, number):
        inputs, labels = batch
        self.log("val_loss", nn.functional.cross_entropy(self.network(inputs), labels), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=EPOCHS, logger=False)
    trainer.fit(
        Module(), DataLoader(samples(), BATCH, shuffle=True, collate_fn=collate), DataLoader(samples(128), BATCH)
    )


if __name__ == "__main__":
    main()
